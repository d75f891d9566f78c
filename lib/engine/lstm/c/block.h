// Blocks of a product of float32 matrices, and what of them depends on the instructions.
#pragma once
#include "ffi.h"

#ifdef __AVX512F__
enum { LANES = 16, MR = 12, NR = 32 };
#define V(op) _mm512_##op##_ps
typedef __m512 vec;
typedef __mmask16 mask;
static inline mask first(i64 n) { return n < 16 ? (1 << n) - 1 : 0xffff; }
static inline vec loadSome(const float *p, mask some) { return _mm512_maskz_loadu_ps(some, p); }
static inline void storeSome(float *p, mask some, vec x) { _mm512_mask_storeu_ps(p, some, x); }
#else
enum { LANES = 8, MR = 6, NR = 16 };
#define V(op) _mm256_##op##_ps
typedef __m256 vec;
typedef __m256i mask;
static inline mask first(i64 n)
{
	i64 lanes = 0x0706050403020100;
	__asm__("" : "+r"(lanes)); // which gcc would take from memory
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? n : 8), _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(lanes)));
}
static inline vec loadSome(const float *p, mask some) { return _mm256_maskload_ps(p, some); }
static inline void storeSome(float *p, mask some, vec x) { _mm256_maskstore_ps(p, some, x); }
#endif

// fetch asks for n numbers, soon to be used.
static inline __attribute__((always_inline)) void fetch(const float *p, const int n)
{
#pragma GCC unroll 2
	for (int i = 0; i < n; i += 16)
		_mm_prefetch(p + i, _MM_HINT_T0);
}

// block sets c to a panel of a [k MR] times one of b [k NR], and to part's sums with them if
// there are any. It fetches what it will be asked for next: a number in each stride, k of them.
static __attribute__((noinline)) void block(i64 k, const float *a, const float *b, float *c, i64 ldc, const float *part, const float *next, i64 stride)
{
	vec r[MR][2];
#pragma GCC unroll 12
	for (int i = 0; i < MR; i++) {
		if (part)
			fetch(part + i * NR, NR);
		_mm_prefetch(c + i * ldc, _MM_HINT_T0);
		_mm_prefetch(c + i * ldc + NR - 1, _MM_HINT_T0);
		r[i][0] = r[i][1] = V(setzero)();
	}
	for (i64 p = 0; p < k; p++, a += MR, b += NR, next += stride) {
		vec b0 = V(loadu)(b), b1 = V(loadu)(b + LANES);
		fetch(b + 8 * NR, NR);
		_mm_prefetch(next, _MM_HINT_T1);
#pragma GCC unroll 12
		for (int i = 0; i < MR; i++) {
			vec x = V(set1)(a[i]);
			r[i][0] = V(fmadd)(x, b0, r[i][0]);
			r[i][1] = V(fmadd)(x, b1, r[i][1]);
		}
	}
#pragma GCC unroll 12
	for (int i = 0; i < MR; i++, c += ldc) {
		if (part) {
			r[i][0] = V(add)(V(loadu)(part + i * NR), r[i][0]);
			r[i][1] = V(add)(V(loadu)(part + i * NR + LANES), r[i][1]);
		}
		V(storeu)(c, r[i][0]);
		V(storeu)(c + LANES, r[i][1]);
	}
}

// take and put are four numbers, or two.
static inline __m128 take(const float *p, int n) { return n < 4 ? _mm_loadl_pi(_mm_setzero_ps(), (const __m64 *)p) : _mm_loadu_ps(p); }
static inline void put(float *p, __m128 x, int n)
{
	if (n < 4)
		_mm_storel_pi((__m64 *)p, x);
	else
		_mm_storeu_ps(p, x);
}

// pack writes n rows of depth k as panels of w, each [k w]: rows lie ri apart, their numbers rp.
static inline __attribute__((always_inline)) void pack(float *d, const float *s, i64 ri, i64 rp, i64 n, i64 k, const int w)
{
	i64 full = n / w * w;
	if (ri == 1)
		for (i64 p = 0; p < k; p++)
			for (i64 j = 0; j < full; j += w)
#pragma GCC unroll 8
				for (int i = 0; i < w; i += 4)
					put(d + j * k + p * w + i, take(s + p * rp + j + i, w - i), w - i);
	else
		for (i64 j = 0; j < full; j += w) {
			const float *from = s + j * ri;
			float *to = d + j * k;
			i64 p = 0;
			for (; p + 4 <= k; p += 4, to += 4 * w, from += 4) {
#pragma GCC unroll 8
				for (int i = 0; i < w; i += 4) {
					const float *q = from + i * ri, *more = q + (w - i < 4 ? 0 : 2 * ri);
					__m128 x = _mm_loadu_ps(q), y = _mm_loadu_ps(q + ri), z = _mm_loadu_ps(more), u = _mm_loadu_ps(more + ri);
					_MM_TRANSPOSE4_PS(x, y, z, u);
					put(to + i, x, w - i);
					put(to + w + i, y, w - i);
					put(to + 2 * w + i, z, w - i);
					put(to + 3 * w + i, u, w - i);
				}
			}
			for (; p < k; p++, to += w, from++)
				for (int i = 0; i < w; i++)
					to[i] = from[i * ri];
		}
	if (full < n)
		for (i64 p = 0; p < k; p++)
			for (i64 i = 0; i < w; i++)
				d[full * k + p * w + i] = full + i < n ? s[(full + i) * ri + p * rp] : 0;
}

static __attribute__((noinline)) void packA(float *d, const float *s, i64 ri, i64 rp, i64 n, i64 k) { pack(d, s, ri, rp, n, k, MR); }
static __attribute__((noinline)) void packB(float *d, const float *s, i64 ri, i64 rp, i64 n, i64 k) { pack(d, s, ri, rp, n, k, NR); }

// get and set are a vector, or some of it, which AMD's processors are slow at.
static inline vec get(const float *p, int whole, mask some) { return whole ? V(loadu)(p) : loadSome(p, some); }
static inline void set(float *p, int whole, mask some, vec x)
{
	if (whole)
		V(storeu)(p, x);
	else
		storeSome(p, some, x);
}

