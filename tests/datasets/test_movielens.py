"""Every official layout is read, folder or zip, and whatever is wrong with a file is said."""

import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from influential_bandits.datasets.movielens import movielens
from influential_bandits.errors import InvalidInput, InvalidLog, MissingFile
from influential_bandits.logs.membership import Membership

MOVIES = [
    (1, 'Quoted, "The" (1995)', "Comedy|Adventure"),
    (3, "Plain (1996)", "Drama"),
    (20, "Cité: des enfants (1995)", "(no genres listed)"),
    (193609, "Never rated (2018)", "IMAX"),
]
# user, movie, rating, time: user 10 comes before 9, two ratings of a second, half stars
RATINGS = [
    (10, 3, 5.0, 900),
    (10, 1, 0.5, 800),
    (9, 20, 3.5, 1000),
    (9, 3, 4.0, 1000),
    (9, 1, 1.0, 999),
]
HEADER = "userId,movieId,rating,timestamp\n"


def quoted(text):
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',";') else text


def csv_release(separator=",", newline="\n", bom=""):
    movies = [("movieId", "title", "genres"), *MOVIES]
    ratings = [("userId", "movieId", "rating", "timestamp"), *RATINGS]
    lines = [
        "".join(separator.join(quoted(str(field)) for field in row) + newline for row in rows)
        for rows in (movies, ratings)
    ]
    return {
        "movies.csv": (bom + lines[0]).encode(),
        "ratings.csv": (bom + lines[1]).encode(),
    }


def dat_release(encoding="utf-8"):
    lines = ["".join("::".join(map(str, r)) + "\n" for r in rows) for rows in (MOVIES, RATINGS)]
    return {"movies.dat": lines[0].encode(encoding), "ratings.dat": lines[1].encode(encoding)}


def in_folder(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def in_zip(folder, files, name="release.zip"):
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files.items():
            archive.writestr(member, content)
    return folder / name


def under(prefix, files):
    return {f"{prefix}/{name}": content for name, content in files.items()}


def with_rows(*rows, header=HEADER):
    text = header + "".join(f"{row}\n" for row in rows)
    return csv_release() | {"ratings.csv": text.encode()}


LAYOUTS = {
    "ml-32m": csv_release(),
    "semicolons and CRLF": csv_release(";", "\r\n"),
    "byte order mark": csv_release(bom="\ufeff"),
    "tabs": csv_release("\t"),
    "ml-10m": dat_release(),
    "ml-1m": dat_release("latin-1"),
}


@pytest.fixture(params=["folder", "zip", "folder in a zip", "folder in a folder"])
def packed(request, tmp_path):
    def pack(files):
        if request.param == "folder":
            return in_folder(tmp_path, files)
        if request.param == "zip":
            return in_zip(tmp_path, files)
        if request.param == "folder in a zip":
            clutter = {"__MACOSX/ml-x/ratings.csv": b"?", "__MACOSX/ml-x/._movies.csv": b"?"}
            return in_zip(tmp_path, clutter | under("ml-x", files))
        in_folder(tmp_path, under("inner", files))
        return tmp_path

    return pack


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_reads_as_the_same_log(packed, layout):
    log = movielens(packed(LAYOUTS[layout]))
    assert log.instances == ("9", "10")
    assert log.arm_names == ("(no genres listed)", "Adventure", "Comedy", "Drama", "IMAX")
    assert log.membership.items == ("1", "3", "20", "193609")
    assert log.offsets.tolist() == [0, 3, 5]
    assert log.item.tolist() == [0, 2, 1, 0, 1]  # by time; the two of one second in file order
    assert log.loss.tolist() == [4.0, 1.5, 1.0, 4.5, 0.0]
    assert log.time.tolist() == [999.0, 1000.0, 1000.0, 800.0, 900.0]
    assert (log.item.dtype, log.loss.dtype, log.time.dtype) == (np.int32, np.float64, np.float64)
    assert log.membership.weights("1") == {"Adventure": 0.5, "Comedy": 0.5}


def test_the_log_says_where_it_comes_from(tmp_path):
    path = in_zip(tmp_path, under("ml-10M100K", dat_release()))
    log = movielens(path, choose="random", seed=7)
    terms = log.about.pop("terms")
    assert "Harper and Konstan" in terms
    assert log.about == {
        "source": str(path),
        "release": "ml-10m",
        "conversion": "loss = 5 − rating",
        "choose": "random",
        "seed": 7,
        "users": 2,
        "ratings": 5,
    }


@pytest.mark.parametrize(
    ("folder", "readme", "release"),
    [
        ("ml-32m", None, "ml-32m"),
        ("ml-1m", None, "ml-1m"),
        ("ml-latest-small", None, "ml-latest-small"),
        ("ml-latest", None, "ml-latest"),
        ("ml-10M100K", None, "ml-10m"),
        ("ml-100k", None, "unknown"),
        ("ml-1million", None, "unknown"),
        ("data", "This dataset (ml-25m) describes", "ml-25m"),
        ("ml-1m", "This dataset (ml-20m) describes", "ml-20m"),
        ("data", "", "unknown"),
    ],
)
def test_a_release_is_recognised(tmp_path, folder, readme, release):
    files = csv_release() | ({} if readme is None else {"README.txt": readme.encode()})
    about = movielens(in_folder(tmp_path / folder, files)).about
    assert about["release"] == release
    assert ("terms" in about) == (release != "unknown")


def test_columns_are_found_by_name(tmp_path):
    rows = ["2000,x,4.5,3,10", "1000,y,1.0,1,9"]
    files = with_rows(*rows, header="timestamp,note,rating,movieId,userId\n")
    log = movielens(in_folder(tmp_path, files))
    assert (log.instances, log.loss.tolist()) == (("9", "10"), [4.0, 0.5])


def test_the_order_of_the_movies_file_changes_nothing(tmp_path):
    movies = [f"{m},T,{g}" for m, g in zip(range(1, 200), ["A|B|C", "B|A", "C"] * 70, strict=False)]
    back = [line.replace("A|B|C", "C|B|A") for line in reversed(movies)]
    header = "movieId,title,genres\n"
    rated = {"ratings.csv": f"{HEADER}1,1,4,1\n".encode()}
    files = [rated | {"movies.csv": (header + "\n".join(m)).encode()} for m in (movies, back)]
    one, two = (
        movielens(in_folder(tmp_path / str(n), f), choose="random", seed=3).membership
        for n, f in enumerate(files)
    )
    assert (one.items, one.arm_names) == (two.items, two.arm_names)
    assert one.arm.tolist() == two.arm.tolist()
    assert one.single
    other = movielens(tmp_path / "0", choose="random", seed=4).membership
    assert other.arm.tolist() != one.arm.tolist()


def test_empty_genres_count_as_none_listed(tmp_path):
    files = {"movies.csv": b"movieId,title,genres\n1,A,\n2,B,Drama|\n"}
    files["ratings.csv"] = f"{HEADER}1,1,4,1\n".encode()
    assert movielens(in_folder(tmp_path, files)).arm_names == ("(no genres listed)", "Drama")


def test_users_in_any_order_and_huge_ids_change_nothing(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        (int(user), movie, rating / 2, time)
        for user in rng.permutation(40)
        for movie, rating, time in zip(
            rng.permutation(50)[:20], rng.integers(1, 11, 20), rng.integers(0, 99, 20), strict=True
        )
    ]

    def release(name, more):
        """Write a release whose ids are so much larger."""
        lines = (f"{user + more},{movie + more},{rest[0]},{rest[1]}" for user, movie, *rest in rows)
        movies = "".join(f"{m + more},T,{'AB'[m % 2]}\n" for m in range(50))
        files = {"movies.csv": f"movieId,title,genres\n{movies}".encode()}
        return in_folder(tmp_path / name, with_rows(*lines) | files)

    whole, huge = movielens(release("small", 0)), 2**40
    large = movielens(release("huge", huge))
    for column in ("offsets", "item", "loss", "time"):
        assert np.array_equal(getattr(large, column), getattr(whole, column))
    assert large.instances == tuple(str(int(label) + huge) for label in whole.instances)
    assert large.membership.items == tuple(str(n + huge) for n in range(50))
    expected = sorted((user, time, n) for n, (user, _, _, time) in enumerate(rows))
    assert whole.loss.tolist() == [5 - rows[n][2] for *_, n in expected]


def test_an_unknown_choice(tmp_path, refused):
    with refused(InvalidInput, "'fractional' or 'random'"):
        movielens(in_folder(tmp_path, csv_release()), choose="all")


class TestMissingFiles:
    def test_no_such_path(self, tmp_path, refused):
        with refused(MissingFile, "no folder and no file", "nowhere"):
            movielens(tmp_path / "nowhere")

    @pytest.mark.parametrize("path", [None, 3, b"bytes"])
    def test_no_path_at_all(self, refused, path):
        with refused(InvalidInput, "expected the path"):
            movielens(path)

    def test_an_empty_folder(self, tmp_path, refused):
        with refused(InvalidLog, "neither ratings.csv nor ratings.dat"):
            movielens(tmp_path)

    def test_movies_alone(self, packed, refused):
        files = {"movies.csv": csv_release()["movies.csv"]}
        with refused(InvalidLog, "movies.csv but no ratings", "whole release"):
            movielens(packed(files))

    def test_ratings_alone(self, packed, refused):
        files = {"ratings.csv": csv_release()["ratings.csv"]}
        with refused(InvalidLog, "ratings.csv but beside it no movies.csv", "whole release"):
            movielens(packed(files))

    def test_a_single_file(self, tmp_path, refused):
        in_folder(tmp_path, csv_release())
        with refused(InvalidLog, "single file; pass the folder"):
            movielens(tmp_path / "ratings.csv")

    def test_several_releases(self, tmp_path, refused):
        in_folder(tmp_path, under("one", csv_release()) | under("two", dat_release()))
        with refused(InvalidLog, "several releases", "one/ratings.csv", "two/ratings.dat"):
            movielens(tmp_path)


class TestBadZips:
    def test_cut_off(self, tmp_path, refused):
        path = in_zip(tmp_path, csv_release())
        path.write_bytes(path.read_bytes()[:-30])
        with refused(InvalidLog, "cannot be unpacked", "not a zip", "get it again"):
            movielens(path)

    def test_without_the_files(self, tmp_path, refused):
        with refused(InvalidLog, "neither ratings.csv"):
            movielens(in_zip(tmp_path, {"x/links.csv": b"movieId,imdbId,tmdbId\n"}))

    @pytest.mark.parametrize("member", ["movies.csv", "ratings.csv"])
    def test_encrypted(self, tmp_path, refused, member):
        path = in_zip(tmp_path, csv_release())
        raw = bytearray(path.read_bytes())
        for signature, flags, name in ((b"PK\3\4", 6, 30), (b"PK\1\2", 8, 46)):
            place = -1
            while (place := raw.find(signature, place + 1)) >= 0:
                if raw[place + name :].startswith(member.encode()):
                    struct.pack_into("<H", raw, place + flags, 1)
        path.write_bytes(raw)
        with refused(InvalidLog, member, "encrypted", "pass the folder"):
            movielens(path)

    def test_packed_in_an_unknown_way(self, tmp_path, refused):
        path = in_zip(tmp_path, csv_release())
        raw = bytearray(path.read_bytes())
        for signature, method in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
            place = -1
            while (place := raw.find(signature, place + 1)) >= 0:
                struct.pack_into("<H", raw, place + method, 99)
        path.write_bytes(raw)
        with refused(InvalidLog, "compression method", "pass the folder"):
            movielens(path)

    @pytest.mark.parametrize("member", ["movies.csv", "ratings.csv"])
    def test_damaged_inside(self, tmp_path, refused, member):
        files = csv_release()
        with zipfile.ZipFile(tmp_path / "r.zip", "w", zipfile.ZIP_STORED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        raw = (tmp_path / "r.zip").read_bytes()
        (tmp_path / "r.zip").write_bytes(raw.replace(files[member], files[member][:-2] + b"7\n"))
        with refused(InvalidLog, member, "Bad CRC-32", "get it again"):
            movielens(tmp_path / "r.zip")

    def test_nothing_is_left_of_a_zip(self, tmp_path, monkeypatch, refused):
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        movielens(in_zip(tmp_path, csv_release()))
        with refused(InvalidLog, "bad row"):
            movielens(in_zip(tmp_path, with_rows("1,3,good,1"), "bad.zip"))
        assert not list((tmp_path / "temporary").iterdir())


class TestBadRatings:
    @pytest.mark.parametrize(
        ("row", "mentions"),
        [
            ("1,three,4.0,1", ["unknown item", "movieId 'three'"]),
            ("1,4,4.0,1", ["unknown item", "movieId '4'"]),
            ("1,-3,4.0,1", ["unknown item", "movieId '-3'"]),
            ("1,3,good,1", ["not a number", "rating 'good'"]),
            ("1,3,4.0,yesterday", ["unreadable time", "timestamp 'yesterday'"]),
            ("1,3,4.0,1,5", ["wrong number of fields"]),
        ],
    )
    def test_rows(self, packed, refused, row, mentions):
        files = with_rows("1,1,3.0,5", row, "2,1,3.0,5")
        with refused(InvalidLog, "ratings.csv has 1 bad row: 1 ×", "(line 3", *mentions):
            movielens(packed(files))

    def test_rows_in_a_layout_of_double_colons(self, tmp_path, refused):
        rows = b"1::1::3::5\n1::3::x::5\n1::20::4\n"
        with refused(InvalidLog, "ratings.dat has 2 bad rows", "line 2: rating 'x'", "line 3"):
            movielens(in_folder(tmp_path, dat_release() | {"ratings.dat": rows}))

    @pytest.mark.parametrize("rating", ["5.5", "0.0", "-1"])
    def test_ratings(self, packed, refused, rating):
        rows = ("1,1,3.0,5", f"1,3,{rating},1", "2,1,3.0,5")
        with refused(InvalidLog, "1 of 3 ratings in ratings.csv lie outside 0.5 … 5"):
            movielens(packed(with_rows(*rows)))

    @pytest.mark.parametrize("user", ["x", "1.5", "-1", "07"])
    def test_users(self, packed, refused, user):
        with refused(InvalidLog, "ratings.csv has a user", f"'{user}'", "no whole number"):
            movielens(packed(with_rows("1,1,3.0,5", f"{user},3,4.0,1")))

    @pytest.mark.parametrize("users", ["1 1 2 2", "2 1 1 2"])
    def test_a_movie_rated_twice(self, packed, refused, users):
        a, b, c, d = users.split()
        rows = [f"{a},1,3.0,5", f"{b},3,3.0,5", f"{c},3,3.0,5", f"{d},3,1.0,6", f"{d},20,2.0,6"]
        with refused(InvalidLog, f"user {c if b == c else d} rates movie 3 more than once"):
            movielens(packed(with_rows(*rows)))

    @pytest.mark.parametrize("text", [HEADER, HEADER.strip(), HEADER + "\n\n"])
    def test_none(self, packed, refused, text):
        with refused(InvalidLog, "ratings.csv has columns, but no rows"):
            movielens(packed(csv_release() | {"ratings.csv": text.encode()}))

    def test_none_in_a_layout_without_header(self, packed, refused):
        with refused(InvalidLog, "ratings.dat is empty"):
            movielens(packed(dat_release() | {"ratings.dat": b""}))

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"1,3,4.0,1\n",
            b"userId,movieId,rating\n1,3,4.0\n",
            b"user\rId,movieId,rating,timestamp\n",
            b"userId," * 50_000,
            HEADER.encode() + np.random.default_rng(2).bytes(20_000),
        ],
    )
    def test_no_table(self, tmp_path, refused, text):
        with refused(InvalidLog, "ratings.csv"):
            movielens(in_folder(tmp_path, csv_release() | {"ratings.csv": text}))


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("", ["must begin"]),
        ("movieId,title,genres\n", ["lists no movies"]),
        ("movieId,title,genres\n1,A,B\nx,A,B\n", ["line 3", "'x'"]),
        ("movieId,title,genres\n1,A,B\n\n2,A\n", ["line 4", "less than 3 fields"]),
        ("movieId,title,genres\n1,A,B\n2,A,B\n1,A,C\n", ["line 4", "second time"]),
        ('movieId,title,genres\n1,A,B\n2,"' + "A" * 200_000, ["is no table"]),
        ('movieId,title,genres\n1,"' + "A" * 200_000, ["is no table"]),
        (f"movieId,title,genres\n{'9' * 5000},A,B\n", ["line 2", "is no number of a movie"]),
        ("x" * 300_000, ["is no table"]),
        ("x" * 3000, ["must begin"]),
        ("movieId,title,genres," + "x" * 300_000 + "\n1,A,B\n", ["is no table"]),
        ("movieId,ti\rtle,genres\n1,A,B\n", ["must begin"]),
    ],
)
def test_bad_movies(tmp_path, refused, text, mentions):
    files = csv_release() | {"movies.csv": text.encode()}
    with refused(InvalidLog, "movies.csv", *mentions):
        movielens(in_folder(tmp_path, files))


def test_progress_is_shown_if_wanted(tmp_path, capsys):
    movielens(in_folder(tmp_path, csv_release()), progress=True)
    assert "reading ratings.csv" in capsys.readouterr().err
    movielens(tmp_path, progress=False)
    assert capsys.readouterr().err == ""


@pytest.fixture(scope="module")
def data():
    folder = os.environ.get("MOVIELENS_DATA")
    if not folder:
        pytest.skip("MOVIELENS_DATA does not name a folder with MovieLens releases")
    return Path(folder)


class TestRealReleases:
    def test_of_2018(self, data):
        log = movielens(data / "ml-latest-small-2018-09")
        assert (log.n_instances, log.n_events, log.n_arms) == (610, 100_836, 20)
        assert len(log.membership.items) == 9_742
        assert log.about["release"] == "ml-latest-small"
        assert log.loss.min() == 0.0
        assert log.loss.max() == 4.5
        assert log.lengths.min() == 20

    def test_of_2015(self, data):
        whole = movielens(data / "ml-latest-small-2015-08")
        assert (whole.about["users"], whole.about["ratings"]) == (718, 100_234)
        log = whole.at_least(4096)
        assert (log.instances, log.n_events) == (("438",), 4_236)
        assert len(log.membership.items) == 8_927
        assert len(np.unique(log.time)) == 2_799
        assert (np.diff(log.time) >= 0).all()

    def test_the_movies_of_32m_have_no_ratings(self, data, refused):
        with refused(InvalidLog, "but no ratings"):
            movielens(data / "ml-32m-movies-only")

    def test_zipped(self, data, tmp_path):
        source = data / "ml-latest-small-2018-09"
        with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in source.iterdir():
                archive.write(path, f"ml-latest-small/{path.name}")
        one, two = movielens(tmp_path / "z.zip"), movielens(source)
        assert np.array_equal(one.item, two.item)
        assert np.array_equal(one.time, two.time)


def test_weights_are_those_of_the_membership(tmp_path):
    genres = {str(movie): sorted(names.split("|")) for movie, _, names in MOVIES}
    read = movielens(in_folder(tmp_path, dat_release())).membership
    made = Membership(genres)
    assert [read.weights(item) for item in genres] == [made.weights(item) for item in genres]
