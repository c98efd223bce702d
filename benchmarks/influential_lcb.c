/* The same work as simulate(InfluentialLCB), as a plain C loop: the yardstick of speed.
   Same random streams, same normal quantile, same order of operations; the counts must agree. */
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline double portable_log(double x) {
    int64_t bits, mantissa, exponent;
    memcpy(&bits, &x, 8);
    mantissa = bits & 0xFFFFFFFFFFFFF;
    exponent = (bits >> 52) - 1023;
    int64_t scaled = mantissa | (1023LL << 52);
    if (mantissa >= 0x6A09E667F3BCD) {
        exponent += 1;
        scaled = mantissa | (1022LL << 52);
    }
    double m;
    memcpy(&m, &scaled, 8);
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
    double odd = w * (3.999999999940941908e-01
                      + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    double even = z * (6.666666666666735130e-01
                       + w * (2.857142874366239149e-01
                              + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    double half_square = 0.5 * f * f, e = (double)exponent;
    return e * 6.93147180369123816490e-01
           - ((half_square - (s * (half_square + (even + odd)) + e * 1.90821492927058770002e-10)) - f);
}

static inline double horner(const double *c, double r) {
    double v = c[0];
    for (int i = 1; i < 8; i++) v = v * r + c[i];
    return v;
}

static inline double normal_quantile(double q) {
    static const double a[8] = {2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
                                4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
                                1.3314166789178437745e2, 3.3871328727963666080e0};
    static const double b[8] = {5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
                                2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
                                4.2313330701600911252e1, 1.0};
    static const double c[8] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                                1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
                                4.63033784615654529590e0, 1.42343711074968357734e0};
    static const double d[8] = {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
                                1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
                                2.05319162663775882187e0, 1.0};
    static const double e[8] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                                2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
                                5.46378491116411436990e0, 6.65790464350110377720e0};
    static const double g[8] = {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
                                7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
                                5.99832206555887937690e-1, 1.0};
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * horner(a, r) / horner(b, r);
    }
    double r = sqrt(-portable_log(0.5 - fabs(q))), v;
    if (r <= 5.0) {
        r -= 1.6;
        v = horner(c, r) / horner(d, r);
    } else {
        r -= 5.0;
        v = horner(e, r) / horner(g, r);
    }
    return copysign(v, q);
}

static inline double centred(uint64_t key1, uint64_t key2, int64_t t) {
    uint64_t state = mix((uint64_t)t * 0x9E3779B97F4A7C15u + key1);
    int64_t bits = (int64_t)mix(state ^ key2);
    return ((double)(bits >> 12) + 0.5) * 2.220446049250313e-16;
}

/* The library's order of summation: four interleaved partial sums, then the rest. */
static inline double ordered_dot(const double *a, const double *b, int64_t size) {
    int64_t whole = size - size % 4;
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    for (int64_t i = 0; i < whole; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    double total = (s0 + s1) + (s2 + s3);
    for (int64_t i = whole; i < size; i++) total += a[i] * b[i];
    return total;
}

/* noise: 0 none, 1 Gaussian, 2 uniform */
void influential_lcb(int64_t arms, int64_t horizon, const double *interaction, const double *initial_loss,
                     int noise, double scale, uint64_t key1, uint64_t key2, int64_t *counts) {
    double weights[arms], key[arms];
    for (int64_t i = 0; i < arms; i++) {
        counts[i] = 0;
        weights[i] = 0.0;
    }
    for (int64_t t = 1; t <= horizon; t++) {
        int64_t arm = 0;
        if (t <= arms) {
            arm = t - 1;
        } else {
            for (int64_t i = 1; i < arms; i++)
                if (key[i] < key[arm]) arm = i;
        }
        double loss = initial_loss[arm] + ordered_dot(interaction + arm * arms, weights, arms);
        if (noise == 1) loss += scale * normal_quantile(centred(key1, key2, t));
        if (noise == 2) loss += scale * (2.0 * centred(key1, key2, t));
        counts[arm] += 1;
        weights[arm] += 1.0;
        key[arm] = loss + (double)t;
    }
}
