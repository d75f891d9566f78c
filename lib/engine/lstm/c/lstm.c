// The time steps of an LSTM, forwards and backwards, as a handler of XLA's FFI: see ../doc.go.
// assemble.go makes ../lstm_amd64.s of it.
#include "block.h"

enum { HEAD = 64, DEPTH = 256, ALONE = 400000 };

// job is one call, at the beginning of its scratch memory.
typedef struct {
	team team;
	const float *z, *biases, *recurrent, *h0, *c0, *v;
	float *h, *c, *gates, *own; // of each thread
	i64 length, n, u, w, wide, back, room; // w, wide: columns of a gate and of h, whole vectors and panels
} job;

_Static_assert(sizeof(job) <= 4 * HEAD, "a job has room in front of its threads'");

// Coefficients of tanh x = x·p(x²)/q(x²), |x| ≤ LARGEST, as XLA and Eigen have it: bits of
// float32, since there is no memory for constants.
enum { LARGEST, P13, P11, P9, P7, P5, P3, P1, Q6, Q4, Q2, Q0, HALF, ONE, NUMBERS = 16 };

static void numbers(float *to)
{
	typedef int __attribute__((may_alias)) bits;
	bits *q = (bits *)to;
	q[LARGEST] = 0x40fff644; // 7.99881172180175781
	q[P13] = 0xa59f25c0;     // -2.76076847742355e-16
	q[P11] = 0x2a61337e;     // 2.00018790482477e-13
	q[P9] = 0xaebd37ff;      // -8.60467152213735e-11
	q[P7] = 0x335c0041;      // 5.12229709037114e-08
	q[P5] = 0x3779434a;      // 1.48572235717979e-05
	q[P3] = 0x3a270ded;      // 6.37261928875436e-04
	q[P1] = 0x3ba059dc;      // 4.89352455891786e-03
	q[Q6] = 0x35a0d3d8;      // 1.19825839466702e-06
	q[Q4] = 0x38f895d6;      // 1.18534705686654e-04
	q[Q2] = 0x3b14aa05;      // 2.26843463243900e-03
	q[Q0] = 0x3ba059dd;      // 4.89352518554385e-03
	q[HALF] = 0x3f000000;
	q[ONE] = 0x3f800000;
}

static inline vec num(const float *q, int which) { return V(set1)(q[which]); }

static inline __attribute__((always_inline)) vec hyperbolic(const float *q, vec x)
{
	vec most = num(q, LARGEST);
	x = V(max)(V(sub)(V(setzero)(), most), V(min)(most, x)); // so that NaN stays
	vec y = V(mul)(x, x), p = num(q, P13), d = num(q, Q6);
	p = V(fmadd)(p, y, num(q, P11));
	p = V(fmadd)(p, y, num(q, P9));
	p = V(fmadd)(p, y, num(q, P7));
	p = V(fmadd)(p, y, num(q, P5));
	p = V(fmadd)(p, y, num(q, P3));
	p = V(fmadd)(p, y, num(q, P1));
	d = V(fmadd)(d, y, num(q, Q4));
	d = V(fmadd)(d, y, num(q, Q2));
	d = V(fmadd)(d, y, num(q, Q0));
	return V(div)(V(mul)(x, p), d);
}

static inline __attribute__((always_inline)) vec sigmoid(const float *q, vec x)
{
	vec half = num(q, HALF);
	return V(fmadd)(hyperbolic(q, V(mul)(x, half)), half, half);
}

// at is where row i and column x lie in sums of high rows, blocks beside each other.
static inline i64 at(i64 high, i64 i, i64 x) { return (x / NR * high + i) * NR + x % NR; }

// multiply sets sums [high cols], see at, to a product over k of packed a and b, DEPTH of it after
// the other.
static void multiply(i64 k, const float *a, i64 high, const float *b, i64 cols, float *sums)
{
	for (i64 p = 0; p < k; p += DEPTH) {
		const i64 d = min(DEPTH, k - p);
		for (i64 j = 0; j < cols; j += NR)
			for (i64 i = 0; i < high; i += MR) {
				float *c = sums + at(high, i, j);
				block(d, a + p * high + i * d, b + p * cols + j * d, c, NR, p ? c : 0, a, 0);
			}
	}
}

// rows packs n rows [n k] for multiply.
static void rows(float *to, const float *from, i64 n, i64 high, i64 k)
{
	for (i64 p = 0; p < k; p += DEPTH)
		packA(to + p * high, from + p, k, 1, n, min(DEPTH, k - p));
}

// forwards goes through all time steps with n sequences from number row on.
static void forwards(const job *g, i64 row, i64 n, float *own)
{
	const i64 u = g->u, w = g->w, cols = 4 * w, high = up(n, MR) * MR;
	float *q = own, *bias = q + NUMBERS, *r = bias + cols, *a = r + u * cols, *sums = a + u * high;
	numbers(q);
	for (i64 j = 0; j < cols; j += LANES) { // gate after gate, each of whole vectors
		const i64 gate = j / w, x = j % w, whole = x + LANES <= u;
		const mask some = first(u - x);
		V(storeu)(bias + j, get(g->biases + gate * u + x, whole, some));
		for (i64 p = 0; p < u; p++) {
			const i64 from = p / DEPTH * DEPTH, d = min(DEPTH, u - from);
			V(storeu)(r + from * cols + j / NR * NR * d + (p - from) * NR + j % NR, get(g->recurrent + (p * 4 + gate) * u + x, whole, some));
		}
	}
	for (i64 t = 0; t < g->length; t++) {
		const i64 place = t * g->n + row;
		rows(a, t ? g->h + (place - g->n) * u : g->h0 + row * u, n, high, u);
		multiply(u, a, high, r, cols, sums);
		for (i64 i = 0; i < n; i++) {
			const float *old = t ? g->c + (place - g->n + i) * u : g->c0 + (row + i) * u, *z = g->z + (place + i) * 4 * u;
			float *c = g->c + (place + i) * u, *h = g->h + (place + i) * u, *gates = g->gates + (place + i) * 4 * u;
			for (i64 x = 0; x < u; x += LANES) {
				const i64 whole = x + LANES <= u;
				const mask some = first(u - x);
				vec s[4];
#pragma GCC unroll 4
				for (int k = 0; k < 4; k++)
					s[k] = V(add)(V(add)(get(z + k * u + x, whole, some), V(loadu)(sums + at(high, i, k * w + x))), V(loadu)(bias + k * w + x));
				s[0] = sigmoid(q, s[0]), s[1] = sigmoid(q, s[1]), s[2] = hyperbolic(q, s[2]), s[3] = sigmoid(q, s[3]);
#pragma GCC unroll 4
				for (int k = 0; k < 4; k++)
					set(gates + k * u + x, whole, some, s[k]);
				vec now = V(fmadd)(s[1], get(old + x, whole, some), V(mul)(s[0], s[2]));
				set(c + x, whole, some, now);
				set(h + x, whole, some, V(mul)(s[3], hyperbolic(q, now)));
			}
		}
	}
}

// backwards goes through all time steps from the last to the first with n sequences from number row
// on, and puts the gradient where the gates were.
static void backwards(const job *g, i64 row, i64 n, float *own)
{
	const i64 u = g->u, w = g->w, wide = g->wide, high = up(n, MR) * MR;
	float *q = own, *r = q + NUMBERS, *a = r + 4 * u * wide, *dh = a + 4 * u * high, *dc = dh + high * wide;
	numbers(q);
	for (i64 p = 0; p < 4 * u; p += DEPTH)
		packB(r + p * wide, g->recurrent + p, 4 * u, 1, u, min(DEPTH, 4 * u - p));
	for (i64 i = 0; i < high * wide; i += LANES)
		V(storeu)(dh + i, V(setzero)());
	for (i64 i = 0; i < n * w; i += LANES)
		V(storeu)(dc + i, V(setzero)());
	for (i64 t = g->length - 1; t >= 0; t--) {
		const i64 place = t * g->n + row;
		for (i64 i = 0; i < n; i++) {
			const float *old = t ? g->c + (place - g->n + i) * u : g->c0 + (row + i) * u, *c = g->c + (place + i) * u, *v = g->v + (place + i) * u;
			float *gates = g->gates + (place + i) * 4 * u;
			for (i64 x = 0; x < u; x += LANES) {
				const i64 whole = x + LANES <= u;
				const mask some = first(u - x);
				const vec one = num(q, ONE);
				vec in = get(gates + x, whole, some), f = get(gates + u + x, whole, some), m = get(gates + 2 * u + x, whole, some), o = get(gates + 3 * u + x, whole, some);
				vec cell = hyperbolic(q, get(c + x, whole, some)), d = V(add)(V(loadu)(dh + at(high, i, x)), get(v + x, whole, some));
				vec e = V(add)(V(loadu)(dc + i * w + x), V(mul)(V(mul)(d, o), V(sub)(one, V(mul)(cell, cell))));
				set(gates + x, whole, some, V(mul)(V(mul)(e, m), V(mul)(in, V(sub)(one, in))));
				set(gates + u + x, whole, some, V(mul)(V(mul)(e, get(old + x, whole, some)), V(mul)(f, V(sub)(one, f))));
				set(gates + 2 * u + x, whole, some, V(mul)(V(mul)(e, in), V(sub)(one, V(mul)(m, m))));
				set(gates + 3 * u + x, whole, some, V(mul)(V(mul)(d, cell), V(mul)(o, V(sub)(one, o))));
				V(storeu)(dc + i * w + x, V(mul)(e, f));
			}
		}
		if (t) {
			rows(a, g->gates + place * 4 * u, n, high, 4 * u);
			multiply(4 * u, a, high, r, wide, dh);
		}
	}
}

// work is a thread's share: sequences of which none knows of another.
static void work(void *data)
{
	job *g = data;
	const i64 me = g->team.thread++, all = up(g->n, MR), from = all * me / g->team.threads * MR, to = min(g->n, all * (me + 1) / g->team.threads * MR);
	float *own = g->own + me * g->room;
	if (g->back)
		backwards(g, from, to - from, own);
	else
		forwards(g, from, to - from, own);
	leave(&g->team);
}

// steps is forwards, from z, biases, recurrent, h0, c0 to h, c, gates, or backwards, from gates,
// recurrent, c0, c, v to what the gates' gradient is; and scratch memory behind both.
void *steps(frame *f)
{
	if (asks(f))
		return 0;
	const i64 bad = W('a', 'n', ' ', 'L', 'S', 'T', 'M', ':');
	buffer **in = f->args.list, **out = f->rets.list;
	if (f->args.n != 5 || (f->rets.n != 4 && f->rets.n != 2) || in[0]->rank != 3 || in[0]->dims[2] < 4 || in[0]->dims[2] % 4 || in[0]->dims[0] < 1 || in[0]->dims[1] < 1)
		return refuse(f->api, bad);
	const i64 back = f->rets.n == 2, length = in[0]->dims[0], n = in[0]->dims[1], u = in[0]->dims[2] / 4;
	const buffer *s = out[f->rets.n - 1], *recurrent = in[back ? 1 : 2];
	if (!shaped(in[0], 3, length, n, 4 * u) || !shaped(recurrent, 2, u, 4 * u, 0) || s->dtype != 11 || s->rank != 1 || s->dims[0] < HEAD)
		return refuse(f->api, bad);
	if (back ? !shaped(in[2], 2, n, u, 0) || !shaped(in[3], 3, length, n, u) || !shaped(in[4], 3, length, n, u) || !shaped(out[0], 3, length, n, 4 * u)
		 : !shaped(in[1], 1, 4 * u, 0, 0) || !shaped(in[3], 2, n, u, 0) || !shaped(in[4], 2, n, u, 0) || !shaped(out[0], 3, length, n, u) ||
		   !shaped(out[1], 3, length, n, u) || !shaped(out[2], 3, length, n, 4 * u))
		return refuse(f->api, bad);
	job *g = (job *)s->data;
	g->length = length, g->n = n, g->u = u, g->back = back;
	g->w = up(u, LANES) * LANES, g->wide = up(u, NR) * NR;
	g->recurrent = recurrent->data;
	if (back) {
		g->c0 = in[2]->data, g->c = in[3]->data, g->v = in[4]->data, g->gates = out[0]->data;
		if (g->gates != in[0]->data)
			for (i64 i = 0; i < length * n * 4 * u; i++)
				g->gates[i] = in[0]->data[i];
	} else {
		g->z = in[0]->data, g->biases = in[1]->data, g->h0 = in[3]->data, g->c0 = in[4]->data;
		g->h = out[0]->data, g->c = out[1]->data, g->gates = out[2]->data;
	}
	g->own = s->data + HEAD;
	const i64 panels = up(n, MR);
	i64 threads = length * n * u * u < ALONE ? 1 : min(panels, poolOf(f));
	for (; threads > 0; threads--) {
		const i64 high = up(panels, threads) * MR;
		g->room = back ? NUMBERS + 4 * u * g->wide + 4 * u * high + high * g->wide + high * g->w : NUMBERS + 4 * g->w * (u + 1 + high) + u * high;
		if (threads * g->room <= s->dims[0] - HEAD)
			return start(f, &g->team, threads, work);
	}
	return refuse(f->api, bad);
}
