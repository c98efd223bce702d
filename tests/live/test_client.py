import pytest
import requests

import influential_bandits as ib
from influential_bandits.errors import ServiceError

ARMS = ["tea", "coffee", "milk/with sugar", "<b>'é人"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with ib.live.serve_in_background(tmp_path_factory.mktemp("live") / "shop.db") as found:
        yield found


@pytest.fixture
def client(service, request):
    address, key = service
    with ib.live.Client(address, key, request.node.name) as made:
        made.create(ARMS, policy="LCB")
        yield made


def test_the_whole_journey(client):
    decision = client.decide("ann/é?#", eligible=ARMS[1:])
    assert decision.arm == "coffee"
    client.feed_back(decision, loss=0.5)
    client.feed_back(decision, loss=0.5)
    with pytest.raises(ServiceError, match="it cannot become") as caught:
        client.feed_back(decision, loss=0.6)
    assert (caught.value.status, caught.value.code) == (409, "feedback_exists")
    later = client.decide("ann/é?#", activate="later")
    client.activate(later)
    client.feed_back(later, reward=2.0)
    client.cancel(client.decide("bob", activate="later"))
    client.expose("bob", ARMS)
    shown = client.show("ann/é?#")
    assert [met["loss"] for met in shown["met"]] == [0.5, -2.0]
    assert any("No chance was involved" in sentence for sentence in shown["why"])
    client.correct(decision, loss=0.25)
    assert client.show("ann/é?#")["met"][0]["loss"] == 0.25
    client.add_arm("water")
    client.retire_arm("milk/with sugar")
    assert client.describe()["retired"] == ["milk/with sugar"]
    client.erase("bob")
    with pytest.raises(ServiceError, match="there is no instance 'bob'"):
        client.show("bob")
    version = client.stage_model("InfluentialLCB")
    client.activate_model(version)
    assert client.decide("ann/é?#").model == version


def test_many_at_once(client):
    decisions = client.decide_many(f"user {n}" for n in range(50))
    client.feed_back_many((decision, 0.1) for decision in decisions)
    log = client.read_log()
    assert log.n_instances == log.n_events == 50
    assert set(log.arm_names) <= set(ARMS)
    report = client.report()
    assert report["policy"]["decisions"] == 50
    assert report["difference"] is None


def test_the_log_is_read_as_it_is(client, tmp_path):
    for n in range(30):
        client.feed_back(client.decide(f"user {n % 3}"), loss=n / 10)
    for form in ("parquet", "csv"):
        answer = requests.get(
            f"{client.address}/v1/experiments/test_the_log_is_read_as_it_is/log?format={form}",
            headers=client._session.headers,
            timeout=10,
        )
        path = tmp_path / f"log.{form}"
        path.write_bytes(answer.content)
        log = ib.read_log(path, loss="loss")
        assert sorted(log.loss) == [n / 10 for n in range(30)]
        assert log.history("user 1").loss.tolist() == [n / 10 for n in range(1, 30, 3)]


def test_errors_say_what_to_do(service):
    address, key = service
    with pytest.raises(ServiceError, match="send a key of this service"):
        ib.live.Client(address, "wrong", "x").describe()
    with pytest.raises(ServiceError, match="there is no experiment 'x'"):
        ib.live.Client(address, key, "x").decide("ann")
    with pytest.raises(ServiceError, match="cannot reach"):
        ib.live.Client("http://127.0.0.1:9", key, "x", patience=0.1).decide("ann")
    with pytest.raises(ib.errors.InvalidInput, match="must begin with http"):
        ib.live.Client("127.0.0.1", key)


def test_a_key_of_one_experiment_makes_keys_for_it_alone(service, client):
    address, key = service

    def call(method, path, token, body=None):
        headers = {"Authorization": f"Bearer {token}"}
        return requests.request(method, address + path, json=body, headers=headers, timeout=10)

    own = {"label": "boss", "role": "admin", "experiment": client.experiment}
    boss = call("POST", "/v1/keys", key, own).json()["key"]
    reader = call("POST", "/v1/keys", boss, {"label": "all"}).json()["key"]
    (seen,) = call("GET", "/v1/experiments", reader).json()["experiments"]
    assert seen["name"] == client.experiment
    new = {"name": "more", "settings": {"arms": ["a"]}}
    assert call("POST", "/v1/experiments", boss, new).status_code == 403


def test_decisions_of_the_same_name_are_told_apart_in_a_batch(service):
    address, key = service
    shops = [ib.live.Client(address, key, name) for name in ("north?experiment=south", "south")]
    for shop in shops:
        shop.create(["tea"], policy="LCB")
        made = shop.decide("ann", decision_id="same")
        shop.feed_back_many([(made, float(len(shop.experiment)))])
    for shop in shops:
        assert shop.read_log().loss.tolist() == [float(len(shop.experiment))]
    with pytest.raises(ServiceError, match="there is no such page"):
        shops[0]._batch([{"path": "/decisions/same/feedback", "body": {"loss": 1.0}}])


def test_a_model_that_is_staged_again_is_the_same_model(client):
    first = client.stage_model("InfluentialLCB")
    assert client.stage_model("InfluentialLCB") == first
    assert client.stage_model("LCB") == first + 1
    assert client.stage_model("InfluentialLCB") == first + 2


def test_an_experiment_that_is_made_again_is_the_same_one(client):
    decision = client.decide("ann")
    client.create(ARMS, policy="LCB")
    client.change(explore=0.5)
    client.create(ARMS, policy="LCB")  # as it was made, whatever was changed since
    assert client.describe()["settings"]["explore"] == 0.5
    assert client.decide("ann", decision_id=decision.decision_id) == decision
    with pytest.raises(ServiceError, match="other settings") as caught:
        client.create(ARMS, policy="LCB", explore=0.5)
    assert caught.value.status == 409
