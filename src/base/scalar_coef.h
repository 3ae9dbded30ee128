/* SPDX-License-Identifier: Apache-2.0
 * Printed by tools/fit_scalar.py, which says how; do not edit. Included by scalar.inc. */
#ifndef IGATA_BASE_SCALAR_COEF_H
#define IGATA_BASE_SCALAR_COEF_H

/* clang-format off */
#define SC_LN2_HI 0x1.62e4p-1f
#define SC_LN2_LO 0x1.7f7d1cp-20f
#define SC_LOG2E 0x1.715476p+0f
#define SC_LOG2E_LO 0x1.4ae0cp-26f
#define SC_PI_HI 0x1.921fb6p+1f
#define SC_PI_LO -0x1.777a5cp-24f
#define SC_PIO2_HI 0x1.921fb6p+0f
#define SC_PIO2_LO -0x1.777a5cp-25f
#define SC_TWOOPI_0 0xa2f9836eu
#define SC_TWOOPI_1 0x4e441529u
#define SC_TWOOPI_2 0xfc2757d1u
#define SC_TWOOPI_3 0xf534ddc0u
#define SC_TWOOPI_4 0xdb629599u
#define SC_TWOOPI_5 0x3c439041u
#define SC_TWOOPI_6 0xfe5163abu
/* fit error 2^-28.2 of the function value */
#define SC_EXP_0 0x1.fffffcp-2f
#define SC_EXP_1 0x1.555492p-3f
#define SC_EXP_2 0x1.5558b4p-5f
#define SC_EXP_3 0x1.1239ap-7f
#define SC_EXP_4 0x1.6a496p-10f
/* fit error 2^-31.1 of the function value */
#define SC_EXPM1_0 0x1p-1f
#define SC_EXPM1_1 0x1.555554p-3f
#define SC_EXPM1_2 0x1.5554f8p-5f
#define SC_EXPM1_3 0x1.1112d6p-7f
#define SC_EXPM1_4 0x1.6d3a5ep-10f
#define SC_EXPM1_5 0x1.9e77ecp-13f
/* fit error 2^-28.3 of the function value */
#define SC_EXP2_0 0x1.62e43p-1f
#define SC_EXP2_1 0x1.ebfbdcp-3f
#define SC_EXP2_2 0x1.c6af7ap-5f
#define SC_EXP2_3 0x1.3b2ddap-7f
#define SC_EXP2_4 0x1.5f0976p-10f
#define SC_EXP2_5 0x1.4172a6p-13f
/* fit error 2^-27.8 of the function value */
#define SC_LOG_0 -0x1.fffff8p-2f
#define SC_LOG_1 0x1.55555p-2f
#define SC_LOG_2 -0x1.000434p-2f
#define SC_LOG_3 0x1.99a404p-3f
#define SC_LOG_4 -0x1.542534p-3f
#define SC_LOG_5 0x1.227026p-3f
#define SC_LOG_6 -0x1.0f473ap-3f
#define SC_LOG_7 0x1.085336p-3f
#define SC_LOG_8 -0x1.37fbd2p-4f
/* fit error 2^-36.9 of the function value */
#define SC_LOGT_0 0x1.55555p-2f
#define SC_LOGT_1 -0x1.fffffap-3f
#define SC_LOGT_2 0x1.9a1024p-3f
#define SC_LOGT_3 -0x1.55aadp-3f
/* fit error 2^-32.5 of the function value */
#define SC_SIN_0 -0x1.555556p-3f
#define SC_SIN_1 0x1.111174p-7f
#define SC_SIN_2 -0x1.a0595cp-13f
#define SC_SIN_3 0x1.7c327cp-19f
/* fit error 2^-33.0 of the function value */
#define SC_COS_0 0x1.55554ap-5f
#define SC_COS_1 -0x1.6c0c2ap-10f
#define SC_COS_2 0x1.99e91p-16f
/* fit error 2^-31.7 of the function value */
#define SC_ASIN_0 0x1.55554cp-3f
#define SC_ASIN_1 0x1.3338acp-4f
#define SC_ASIN_2 0x1.6ca75p-5f
#define SC_ASIN_3 0x1.04d362p-5f
#define SC_ASIN_4 0x1.d512f4p-7f
#define SC_ASIN_5 0x1.34cf26p-5f
/* fit error 2^-28.5 of the function value */
#define SC_ATAN_0 -0x1.55553ep-2f
#define SC_ATAN_1 0x1.9991e6p-3f
#define SC_ATAN_2 -0x1.2420b8p-3f
#define SC_ATAN_3 0x1.c08f96p-4f
#define SC_ATAN_4 -0x1.58162ep-4f
#define SC_ATAN_5 0x1.da621p-5f
#define SC_ATAN_6 -0x1.fe02ap-6f
#define SC_ATAN_7 0x1.64c83ap-7f
#define SC_ATAN_8 -0x1.d4a1eap-10f
/* fit error 2^-31.6 of the function value */
#define SC_SINH_0 0x1.555556p-3f
#define SC_SINH_1 0x1.1110ep-7f
#define SC_SINH_2 0x1.a022bcp-13f
#define SC_SINH_3 0x1.756c1ep-19f
/* fit error 2^-24.5 of the function value */
static const float sc_tanh_c[16] = {
    0.0f, 0x1.bffecp-4f, 0x1.3fffap-3f, 0x1.bffed4p-3f,
    0x1.3fff52p-2f, 0x1.c000cep-2f, 0x1.3ffe2ep-1f, 0x1.c0003ep-1f,
    0x1.400036p+0f, 0x1.bfff9p+0f, 0x1.3fff66p+1f, 0x1.bfff5cp+1f,
    0x1.40019ap+2f, 0x1.bfe3bp+2f, 0x1.401ffep+3f, 0x1.cp+3f,
};
static const float sc_tanh_y[16] = {
    0.0f, 0x1.be379cp-4f, 0x1.3d6b6ap-3f, 0x1.b8fbe6p-3f,
    0x1.35f8ecp-2f, 0x1.a5734ap-2f, 0x1.1bf33cp-1f, 0x1.68667p-1f,
    0x1.b2525ap-1f, 0x1.e1fbep-1f, 0x1.f92572p-1f, 0x1.ff112ap-1f,
    0x1.fff41ap-1f, 0x1.ffffc8p-1f, 0x1p+0f, 0x1p+0f,
};
static const float sc_tanh_k1[16] = {
    0.0f, 0x1.f9ec74p-1f, 0x1.f3b366p-1f, 0x1.e842eap-1f,
    0x1.d115a4p-1f, 0x1.a94574p-1f, 0x1.62862ap-1f, 0x1.024fdep-1f,
    0x1.1f24a4p-2f, 0x1.d22e14p-4f, 0x1.b3b45p-6f, 0x1.dd3eep-9f,
    0x1.7d43c6p-13f, 0x1.c099c6p-19f, 0x1.3933a8p-27f, 0.0f,
};
static const float sc_tanh_k2[16] = {
    -0x1.43ab38p-27f, -0x1.b8ec08p-4f, -0x1.35cb74p-3f, -0x1.a489a8p-3f,
    -0x1.1991bp-2f, -0x1.5e0f5cp-2f, -0x1.893b26p-2f, -0x1.6ba7aep-2f,
    -0x1.e7289p-3f, -0x1.b6d99cp-4f, -0x1.adddfcp-6f, -0x1.dc5f7p-9f,
    -0x1.7d1aaap-13f, -0x1.c06d66p-19f, -0x1.339298p-27f, 0.0f,
};
static const float sc_tanh_k3[16] = {
    -0x1.5554f6p-2f, -0x1.4515c8p-2f, -0x1.3511eap-2f, -0x1.1859cp-2f,
    -0x1.c19d14p-3f, -0x1.16eb8cp-3f, -0x1.2472c2p-6f, 0x1.4f1434p-4f,
    0x1.bbb462p-4f, 0x1.01c1a2p-4f, 0x1.16d3a6p-6f, 0x1.3c2082p-9f,
    0x1.f29a28p-14f, 0x1.255c68p-19f, 0x1.dca8f6p-29f, 0.0f,
};
static const float sc_tanh_k4[16] = {
    -0x1.2561e2p-14f, 0x1.2796e6p-4f, 0x1.8f9e1p-4f, 0x1.03d36ep-3f,
    0x1.43ed26p-3f, 0x1.5c154ep-3f, 0x1.1a66b2p-3f, 0x1.f20c2ep-5f,
    -0x1.9c5a2p-7f, -0x1.816cdcp-6f, -0x1.07d928p-7f, -0x1.39e328p-10f,
    -0x1.f381bcp-15f, -0x1.262b08p-20f, -0x1.f4918ap-30f, 0.0f,
};
static const float sc_tanh_k5[16] = {
    0x1.14268cp-3f, -0x1.efbcf8p-2f, 0x1.fd1972p-5f, 0x1.70e79p-3f,
    0x1.59b716p-5f, -0x1.ddc42ap-10f, -0x1.bb33p-5f, -0x1.dfffdep-5f,
    -0x1.42b064p-6f, 0x1.c8814cp-9f, 0x1.7a649p-9f, 0x1.010d16p-11f,
    0x1.dcd4dep-16f, 0x1.19259cp-21f, 0x1.184b02p-29f, 0.0f,
};
static const float sc_tanh_k6[16] = {
    -0x1.e325cap-7f, -0x1.61ce0ap+2f, -0x1.5bccep-2f, 0x1.665c08p-2f,
    -0x1.52671ep-4f, -0x1.bdcaacp-5f, -0x1.8314c8p-6f, 0x1.a5edaep-7f,
    0x1.ee15bep-7f, 0x1.12c7b8p-9f, -0x1.6d1162p-11f, -0x1.4aab62p-13f,
    -0x1.3ab7cep-17f, -0x1.729f7p-23f, -0x1.6ecc6p-31f, 0.0f,
};
/* fit error 2^-24.8 of the function value */
static const float sc_erf_c[16] = {
    0.0f, 0x1.0ffe8ep-2f, 0x1.0ffa9ap-1f, 0x1.97ffe6p-1f,
    0x1.0fff9p+0f, 0x1.540066p+0f, 0x1.97fe6ap+0f, 0x1.dbffeep+0f,
    0x1.0fffb8p+1f, 0x1.32003p+1f, 0x1.53ff86p+1f, 0x1.75ff72p+1f,
    0x1.97fb5p+1f, 0x1.ba1ffep+1f, 0x1.dc1ffep+1f, 0x1.fe1ffep+1f,
};
static const float sc_erf_y[16] = {
    0.0f, 0x1.2bd856p-2f, 0x1.18510ep-1f, 0x1.7b0048p-1f,
    0x1.bbeebep-1f, 0x1.e11a66p-1f, 0x1.f39b7ap-1f, 0x1.fb9f5ep-1f,
    0x1.fea41ep-1f, 0x1.ffa14ap-1f, 0x1.ffe96ap-1f, 0x1.fffb4ap-1f,
    0x1.ffff24p-1f, 0x1.ffffdep-1f, 0x1.fffffcp-1f, 0x1p+0f,
};
static const float sc_erf_k1[16] = {
    0x1.06eba8p-3f, 0x1.0d2fdcp+0f, 0x1.b3afep-1f, 0x1.322838p-1f,
    0x1.75aa76p-2f, 0x1.8c059p-3f, 0x1.6c8596p-4f, 0x1.23520cp-5f,
    0x1.946612p-7f, 0x1.e770ep-9f, 0x1.fe4bf8p-11f, 0x1.cfe098p-13f,
    0x1.6e7942p-15f, 0x1.f2999cp-18f, 0x1.28a6dap-20f, 0x1.328a82p-23f,
};
static const float sc_erf_k2[16] = {
    0x1.626406p-22f, -0x1.1dfffp-2f, -0x1.ceep-2f, -0x1.e7ef4p-2f,
    -0x1.8d04d6p-2f, -0x1.06fcc4p-2f, -0x1.227a6ep-3f, -0x1.0ed6e6p-4f,
    -0x1.adab04p-6f, -0x1.234f2cp-7f, -0x1.52d47cp-9f, -0x1.52c6cap-11f,
    -0x1.23ebcap-13f, -0x1.ae5318p-16f, -0x1.13a66cp-18f, -0x1.3114b8p-21f,
};
static const float sc_erf_k3[16] = {
    -0x1.812bf2p-2f, -0x1.344dfep-2f, -0x1.fa333p-4f, 0x1.b8cfd2p-5f,
    0x1.39526ap-3f, 0x1.4db23p-3f, 0x1.efbfe8p-4f, 0x1.1f2dfp-4f,
    0x1.0ea7aep-5f, 0x1.a7acc2p-7f, 0x1.16c272p-8f, 0x1.36a65cp-10f,
    0x1.26eabap-12f, 0x1.daa938p-15f, 0x1.496332p-17f, 0x1.887338p-20f,
};
static const float sc_erf_k4[16] = {
    0x1.5282p-12f, 0x1.0e7c24p-3f, 0x1.7561b8p-3f, 0x1.18561cp-3f,
    0x1.8b0128p-5f, -0x1.694b4cp-6f, -0x1.8f9ceep-5f, -0x1.6076cep-5f,
    -0x1.b0a05ep-6f, -0x1.9bcd9ap-7f, -0x1.3d2504p-8f, -0x1.93b8b4p-10f,
    -0x1.ae72c8p-12f, -0x1.807d6cp-14f, -0x1.252ffp-16f, -0x1.7cfd8ep-19f,
};
static const float sc_erf_k5[16] = {
    0x1.c5dfb2p-4f, 0x1.3d1d36p-4f, -0x1.03ef54p-10f, -0x1.e456d2p-5f,
    -0x1.0e014p-4f, -0x1.2e1caap-5f, -0x1.537926p-8f, 0x1.641ef2p-7f,
    0x1.975cp-7f, 0x1.08841p-7f, 0x1.f683b2p-9f, 0x1.778188p-10f,
    0x1.c82fep-12f, 0x1.caa368p-14f, 0x1.81e23ep-16f, 0x1.11b9e2p-18f,
};
static const float sc_pow_c[16] = {
    0x1.66p+0f, 0x1.57p+0f, 0x1.49p+0f, 0x1.3dp+0f,
    0x1.31p+0f, 0x1.26p+0f, 0x1.1cp+0f, 0x1.12p+0f,
    0x1.09p+0f, 0x1p+0f, 0x1.e6p-1f, 0x1.cap-1f,
    0x1.b2p-1f, 0x1.9cp-1f, 0x1.88p-1f, 0x1.76p-1f,
};
static const float sc_pow_hi[16] = {
    -0x1.ef6cp-2f, -0x1.b03p-2f, -0x1.72ap-2f, -0x1.3bbcp-2f,
    -0x1.02bcp-2f, -0x1.98fp-3f, -0x1.32bp-3f, -0x1.919p-4f,
    -0x1.986p-5f, 0.0f, 0x1.33fp-4f, 0x1.495p-3f,
    0x1.e858p-3f, 0x1.4108p-2f, 0x1.8a88p-2f, 0x1.cffcp-2f,
};
static const float sc_pow_lo[16] = {
    -0x1.67328ep-18f, -0x1.befe06p-18f, -0x1.637cbcp-18f, -0x1.3a0a1ep-18f,
    0x1.45db3p-18f, 0x1.17c40cp-18f, 0x1.61d876p-19f, 0x1.7a46e8p-18f,
    0x1.00f2dap-19f, 0.0f, 0x1.f37854p-18f, -0x1.e711c8p-21f,
    -0x1.6164f6p-22f, -0x1.fe83c2p-18f, 0x1.80abfcp-18f, -0x1.19ee52p-18f,
};

/* clang-format on */
#endif
