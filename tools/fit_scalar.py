#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives every coefficient of src/base/scalar.inc and prints src/base/scalar_coef.h.

    python3 tools/fit_scalar.py > src/base/scalar_coef.h        (needs numpy and mpmath; under a minute)

Method: minimax fit (Lawson) of a polynomial with chosen exponents, target values taken at 50 digits; then the lowest
coefficient is rounded to f32 and fixed, the rest refitted, and so on. The weight makes the error relative to the final
value of the function. Table cells: one polynomial per cell around a centre that is moved a little until the function
value there is within 2^-33 (relative) of an f32, so that the constant term adds no rounding error (the idea of Gal's
accurate tables, 1986)."""
import struct
import sys
import numpy as np
from mpmath import mp, mpf

mp.dps = 50


def f32(x):
    """Nearest f32, ties as the platform's double->float (never met)."""
    return mpf(struct.unpack('f', struct.pack('f', float(x)))[0])


def hexf(x):
    x = float(x)
    if x == 0:
        return '0.0f'
    s = x.hex()
    mant, exp = s.split('p')
    if '.' in mant:
        mant = mant.rstrip('0').rstrip('.')
    return f'{mant}p{exp}f'


def minimax(xs, fs, exps, ws):
    """Weighted minimax fit on sample points by Lawson's iteration (weighted least squares, weights multiplied by the
    error). Needs no Haar condition, so it also serves once low coefficients are fixed."""
    scale = float(max(abs(x) for x in xs))
    t = np.array([float(x) for x in xs]) / scale
    target = np.array([float(f) for f in fs])
    w = np.array([float(w) for w in ws])
    basis = np.stack([t ** e for e in exps], axis=1)
    lawson = np.full(len(t), 1.0 / len(t))
    best = None
    for _ in range(80):
        root = np.sqrt(lawson) * w
        coef, *_ = np.linalg.lstsq(basis * root[:, None], target * root, rcond=None)
        err = np.abs((target - basis @ coef) * w)
        top = err.max()
        if best is None or top < best[1]:
            best = (coef, top)
        if top == 0:
            break
        lawson = lawson * (err / top + 1e-9)
        lawson /= lawson.sum()
    return [mpf(c) / mpf(scale) ** e for c, e in zip(best[0], exps)]


def fit(f, exps, weight, a, b, size=300):
    """Coefficients (f32 numbers) of f ~ sum c_e x^e on [a, b], and the weighted error left."""
    a, b = mpf(a), mpf(b)
    # open Chebyshev grid of even size: never the ends nor the middle, where 0/0 may wait
    xs = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * size)) for i in range(size)]
    rest, ws = [f(x) for x in xs], [weight(x) for x in xs]
    out, free = [], list(exps)
    while free:
        c = f32(minimax(xs, rest, free, ws)[0])
        out.append(c)
        rest = [r - c * x ** free[0] for r, x in zip(rest, xs)]
        free.pop(0)
    return out, max(abs(r * w) for r, w in zip(rest, ws))


def nudge(coefs, want):
    """Moves one coefficient by the fewest units so that 1 + z*P(z), in f32 as in the body, is `want` at z = 1."""
    def value(cs):
        p = cs[-1]
        for c in reversed(cs[:-1]):
            p = f32(p + c)
        return f32(1 + p)
    for step in range(8):
        for i in reversed(range(len(coefs))):
            for k in (step, -step):
                cs = list(coefs)
                cs[i] = f32(cs[i] + k * mpf(2) ** (mp.floor(mp.log(abs(cs[i]), 2)) - 23))
                if value(cs) == want:
                    return cs
    raise ValueError('no nudge')


def note(name, err):
    print(f'{name}: fit error 2^{float(mp.log(err, 2)) if err else -999:.2f}', file=sys.stderr, flush=True)


def emit(name, coefs, err):
    note(name, err)
    print(f'/* fit error 2^{float(mp.log(err, 2)):.1f} of the function value */')
    for i, c in enumerate(coefs):
        print(f'#define SC_{name}_{i} {hexf(c)}')


def table(name, values):
    assert len(values) == 16
    print(f'static const float sc_{name}[16] = {{')
    for i in range(0, 16, 4):
        print('    ' + ', '.join(hexf(v) for v in values[i:i + 4]) + ',')
    print('};')


def split(name, value, bits, parts=2):
    """value = _HI + _LO (+ _LO2); all but the last keep `bits` bits, so that small multiples stay exact."""
    rest = mpf(value)
    names = ['HI', 'LO', 'LO2']
    for k in range(parts):
        if k == parts - 1:
            c = f32(rest)
        else:
            e = mp.floor(mp.log(abs(rest), 2))
            c = mp.nint(rest / 2 ** (e - bits + 1)) * 2 ** (e - bits + 1)
        print(f'#define SC_{name}_{names[k]} {hexf(c)}')
        rest -= c


def accurate_centre(f, nominal, spread):
    """An f32 near nominal whose f() is almost an f32."""
    ulp = mpf(2) ** (mp.floor(mp.log(nominal, 2)) - 23)
    best = None
    for k in range(0, 4096):
        for s in (k, -k):
            c = f32(nominal) + s * ulp
            if abs(c - nominal) > spread:
                continue
            y = f(c)
            d = abs(y - f32(y)) / abs(y)
            if best is None or d < best[0]:
                best = (d, c)
        if best[0] < mpf(2) ** -33:
            break
    return best[1]


def cells(name, f, bounds, nominals, degree):
    """Tables of f around 16 centres: y = y0 + r*(k1 + r*(k2 + ...)), r = x - c. Cell 0 has c = 0, y0 = x itself
    (selected by the body) and fits (f(x) - x)/x, so that its rounding error is that of the last operation."""
    cs, ys, ks, worst = [], [], [], mpf(0)
    for i in range(16):
        a, b = map(mpf, bounds[i])
        if i == 0:
            first = 0 if abs(f(mpf(10) ** -12) * 10 ** 12 - 1) > mpf('1e-6') else 1
            co, err = fit(lambda x: (f(x) - x) / x, range(first, degree), lambda x: x / f(x), a, b)
            cs.append(mpf(0)), ys.append(mpf(0)), ks.append([mpf(0)] * first + co)
        elif 1 - f(a) < mpf(2) ** -26:
            cs.append(mpf(nominals[i])), ys.append(mpf(1)), ks.append([mpf(0)] * degree)
            err = mpf(0)
        else:
            c = accurate_centre(f, mpf(nominals[i]), (b - a) / 64)
            y = f(c)
            co, err = fit(lambda r: (f(c + r) - y) / r, range(degree), lambda r: abs(r) / f(c + r), a - c, b - c)
            cs.append(c), ys.append(f32(y)), ks.append(co)
        print(f'  cell {i}: {float(err):.3g}', file=sys.stderr)
        worst = max(worst, err)
    note(name, worst)
    print(f'/* fit error 2^{float(mp.log(worst, 2)):.1f} of the function value */')
    table(name + '_c', cs)
    table(name + '_y', ys)
    for d in range(degree):
        table(f'{name}_k{d + 1}', [k[d] for k in ks])


def main():
    ln2, pi = mp.log(2), mp.pi
    print('/* SPDX-License-Identifier: Apache-2.0\n * Printed by tools/fit_scalar.py, which says how; do not edit.'
          ' Included by scalar.inc. */')
    print('#ifndef IGATA_BASE_SCALAR_COEF_H\n#define IGATA_BASE_SCALAR_COEF_H\n')
    print('/* clang-format off */')

    split('LN2', ln2, 15)
    print(f'#define SC_LOG2E {hexf(f32(1 / ln2))}')
    print(f'#define SC_LOG2E_LO {hexf(f32(1 / ln2 - f32(1 / ln2)))}')
    split('PI', pi, 24)
    split('PIO2', pi / 2, 24)
    with mp.workdps(90):
        bits = int(mp.floor(2 / mp.pi * mpf(2) ** 224))
    for i in range(7):
        print(f'#define SC_TWOOPI_{i} 0x{(bits >> (192 - 32 * i)) & 0xffffffff:08x}u')

    half = ln2 / 2 * mpf('1.001')
    emit('EXP', *fit(lambda r: (mp.expm1(r) - r) / r ** 2, range(5), lambda r: r ** 2 / mp.exp(r), -half, half))
    emit('EXPM1', *fit(lambda r: (mp.expm1(r) - r) / r ** 2, range(6),
                       lambda r: r ** 2 / abs(mp.expm1(r)), -half, half))
    emit('EXP2', *fit(lambda r: mp.expm1(r * ln2) / r, range(6), lambda r: abs(r) / 2 ** r,
                      -mpf('.5005'), mpf('.5005')))
    emit('LOG', *fit(lambda f: (mp.log1p(f) - f) / f ** 2, range(9), lambda f: f ** 2 / abs(mp.log1p(f)),
                     mp.sqrt(mpf(.5)) - 1, mp.sqrt(mpf(2)) - 1))
    emit('LOGT', *fit(lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3, range(4), lambda f: f ** 3 / abs(mp.log1p(f)),
                      mpf('-.0330'), mpf('.0330')))
    q = (pi / 4 * mpf('1.0001')) ** 2
    s = mp.sqrt
    emit('SIN', *fit(lambda z: (mp.sin(s(z)) / s(z) - 1) / z, range(4), lambda z: z * s(z) / mp.sin(s(z)), 0, q))
    emit('COS', *fit(lambda z: (mp.cos(s(z)) - 1 + z / 2) / z ** 2, range(3), lambda z: z * z / mp.cos(s(z)), 0, q))
    emit('ASIN', *fit(lambda z: (mp.asin(s(z)) / s(z) - 1) / z, range(6), lambda z: z * s(z) / mp.asin(s(z)),
                      0, mpf('.2501')))
    coefs, err = fit(lambda z: (mp.atan(s(z)) / s(z) - 1) / z, range(9), lambda z: z * s(z) / mp.atan(s(z)), 0, 1)
    emit('ATAN', nudge(coefs, f32(pi / 4)), err) # atan(1), atan2(inf, inf): pi/4 rounded
    emit('SINH', *fit(lambda z: (mp.sinh(s(z)) / s(z) - 1) / z, range(4), lambda z: z * s(z) / mp.sinh(s(z)), 0, 1))

    # tanh: cells are half octaves, [2^-4, 2^4); cell 0 reaches down to 0
    bounds, mids = [], []
    for i in range(16):
        lo = mpf(2) ** (i // 2 - 4) * (1 if i % 2 == 0 else mpf(1.5))
        hi = lo * (mpf(1.5) if i % 2 == 0 else mpf(4) / 3)
        bounds.append((0 if i == 0 else lo, hi))
        mids.append((lo + hi) / 2)
    cells('tanh', mp.tanh, bounds, mids, 6)

    # erf: uniform cells of 17/64
    w = mpf(17) / 64
    bounds = [((i - mpf('.5001')) * w if i else mpf(0), (i + mpf('.5001')) * w) for i in range(16)]
    cells('erf', mp.erf, bounds, [i * w for i in range(16)], 5)

    # pow: 16 cells of the mantissa from 0x3f330000 up; c = reciprocal of the middle, log2 = HI (16 fraction bits) + LO
    cs, his, los = [], [], []
    for i in range(16):
        a, b = (struct.unpack('f', struct.pack('I', 0x3f330000 + (i + k) * 0x80000))[0] for k in (0, 1))
        c = f32(mpf(1) if a < 1 < b else mp.nint(256 * 2 / (mpf(a) + mpf(b))) / 256)
        lg = -mp.log(c, 2)
        hi = mp.nint(lg * 65536) / 65536
        cs.append(c), his.append(hi), los.append(f32(lg - hi))
    table('pow_c', cs), table('pow_hi', his), table('pow_lo', los)
    print('\n/* clang-format on */\n#endif')


main()
