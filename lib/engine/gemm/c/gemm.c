// Products of float32 matrices as a handler of XLA's FFI: see ../doc.go. assemble.go makes
// ../gemm_amd64.s of it, for AVX-512 and for AVX2, so it has no data, calls no library, and is
// position independent.
// The structs are those of xla/ffi/api/c_api.h.
#include <immintrin.h>

typedef long i64;
typedef struct { i64 size; void *extension; } head;

typedef struct { head h; int dtype; float *data; i64 rank, *dims; } buffer;
typedef struct { const char *name; i64 len; } span;
typedef struct { int dtype; void *value; } scalar;
typedef struct { i64 size; int type; void *next; struct metadata *metadata; } extension;
struct metadata { i64 size; head version; int major, minor; unsigned traits; i64 state; };
typedef struct { head h; void *future; } futureArgs;
typedef struct { head h; void *ctx; void (*task)(void *); void *data; } taskArgs;
typedef struct { head h; void *ctx; i64 *threads; } threadsArgs;
typedef struct { head h; void *error; } errorArgs;
typedef struct { head h; const char *message; int code; } messageArgs;
typedef struct {
	head h;
	head version; int major, minor;
	void *internal;
	void *(*errorCreate)(messageArgs *);
	void *errorMessage;
	void (*errorDestroy)(errorArgs *);
	void *others[8];
	void *(*schedule)(taskArgs *);
	void *(*threads)(threadsArgs *);
	void *(*futureCreate)(futureArgs *);
	void *(*futureAvailable)(futureArgs *);
} api;
typedef struct {
	head h;
	const api *api;
	void *ctx;
	int stage;
	struct { head h; i64 n; int *types; buffer **list; } args, rets;
	struct { head h; i64 n; int *types; span **names; scalar **list; } attrs;
	void *future;
} frame;

#ifdef __AVX512F__
enum { LANES = 16, MR = 12, NR = 32, NC = 256, TALL = 12 };
#define V(op) _mm512_##op##_ps
typedef __m512 vec;
typedef __mmask16 mask;
static inline mask first(i64 n) { return n < 16 ? (1 << n) - 1 : 0xffff; }
static inline vec loadSome(const float *p, mask some) { return _mm512_maskz_loadu_ps(some, p); }
static inline void storeSome(float *p, mask some, vec x) { _mm512_mask_storeu_ps(p, some, x); }
#else
enum { LANES = 8, MR = 6, NR = 16, NC = 128, TALL = 24 };
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
enum { KC = 512, HEAD = 64, LEAST = 64, STRIP = 96, WIDE = 131072, ALONE = 4000000, AHEAD = (MR * NR + NC - 1) / NC };

// job is one product, at the beginning of its scratch memory.
typedef struct {
	const api *api;
	void *future;
	const float *a, *b;
	float *c, *pa, *own; // a packed; each thread's block of b and sums
	const float *knobs, *w, *v, *u; // see change: none, but where the product is a gradient
	float *nv, *nu;                 // v and u afterwards
	i64 m, n, k, ai, ap, bj, bp; // strides of a's rows and depth, of b's columns and depth
	i64 high;                    // m, full panels
	i64 wide, room;              // whether it is by rows, see rowsOf; each thread's own memory
	i64 depth, threads, strips;  // of the blocks; at work; of a, to be packed
	_Atomic i64 strip, packed, tile, thread, left;
} job;

_Static_assert(sizeof(job) <= 4 * HEAD, "a job has room in front of its panels");

static inline i64 min(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 up(i64 a, i64 b) { return (a + b - 1) / b; }

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

// edge is block for the h rows and w columns that there are.
static __attribute__((noinline)) void edge(i64 k, const float *a, const float *b, float *c, i64 ldc, const float *part, const float *next, i64 h, i64 w)
{
	float t[MR * NR];
	block(k, a, b, t, NR, part, next, AHEAD);
	for (i64 i = 0; i < h; i++)
		for (i64 j = 0; j < w; j++)
			c[i * ldc + j] = t[i * NR + j];
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

// stripOf packs a strip of a, of all depths, or of b where that is read as a whole.
static void stripOf(job *g, i64 t)
{
	i64 i = t * STRIP;
	if (g->wide) {
		packB(g->pa + i * g->k, g->b + i * g->bj, g->bj, g->bp, min(STRIP, g->n - i), g->k);
		return;
	}
	for (i64 p = 0; p < g->k; p += g->depth) {
		i64 k = min(g->depth, g->k - p);
		packA(g->pa + g->high * p + i * k, g->a + i * g->ai + p * g->ap, g->ai, g->ap, min(STRIP, g->m - i), k);
	}
}

// width is how many columns the tile from column j on has: fewer towards the end, so that no
// thread is long at work after the others.
static i64 width(const job *g, i64 j)
{
	i64 rest = g->n - j, w = g->threads < 2 ? NC : up(rest, 2 * g->threads * NR) * NR;
	return min(rest, w < LEAST ? LEAST : min(w, NC));
}

// get and set are a vector, or some of it: a processor may take ten times as long for that.
static inline vec get(const float *p, int whole, mask some) { return whole ? V(loadu)(p) : loadSome(p, some); }
static inline void set(float *p, int whole, mask some, vec x)
{
	if (whole)
		V(storeu)(p, x);
	else
		storeSome(p, some, x);
}

// knobs are a step's.
typedef struct { vec rate, k1, l1, k2, l2, scale, least; } knobs;

// changeAt is a step of the numbers from number at on, whose gradient is x.
static inline __attribute__((always_inline)) void changeAt(const job *g, const knobs *q, i64 at, vec x, const int whole, mask some)
{
	if (g->v) {
		vec v = V(add)(V(mul)(get(g->v + at, whole, some), q->k1), V(mul)(x, q->l1));
		set(g->nv + at, whole, some, v);
		if (g->u) {
			vec u = V(add)(V(mul)(get(g->u + at, whole, some), q->k2), V(mul)(V(mul)(x, x), q->l2));
			set(g->nu + at, whole, some, u);
			v = V(div)(v, V(add)(V(mul)(V(sqrt)(u), q->scale), q->least));
		}
		x = v;
	}
	set(g->c + at, whole, some, V(sub)(get(g->w + at, whole, some), V(mul)(q->rate, x)));
}

// change is a step: h rows of a gradient from row i on, columns j0 to j0 + n, lie in d as
// blocks leave them. It is Adam's where there is u, else SGD's, with momentum where there is v.
static __attribute__((noinline)) void change(const job *g, const float *d, i64 i, i64 h, i64 j0, i64 n)
{
	const float *k = g->knobs;
	const knobs q = { V(set1)(k[0]), V(set1)(k[1]), V(set1)(k[2]), V(set1)(k[3]), V(set1)(k[4]), V(set1)(k[5]), V(set1)(k[6]) };
	const i64 full = n / LANES * LANES;
	const mask some = first(n - full);
	for (i64 r = 0; r < h; r++) {
		const i64 at = (i + r) * g->n + j0;
		const float *x = d + r * NR;
		for (i64 j = 0; j < full; j += LANES)
			changeAt(g, &q, at + j, V(loadu)(x + j / NR * NR * MR + j % NR), 1, some);
		if (full < n)
			changeAt(g, &q, at + full, V(loadu)(x + full / NR * NR * MR + full % NR), 0, some);
	}
}

// rowsOf is the step of TALL rows from row i on, of one depth, with all of b, which is packed
// in place of a; own is the thread's own memory. It fetches the rows from row next on meanwhile.
static void rowsOf(const job *g, i64 i, i64 next, float *own)
{
	const i64 h = min(TALL, g->m - i), k = g->k, w = up(g->n, NR) * NR, reach = 16 * k, parts = up(TALL * g->n, reach);
	const float *far[] = { g->w, g->v, g->u };
	const i64 all = parts * (g->u ? 3 : g->v ? 2 : 1);
	float *sums = own + up(TALL * k, 16) * 16;
	packA(own, g->a + i * g->ai, g->ai, g->ap, h, k);
	for (i64 j = 0, part = 0; j < g->n; j += NR)
		for (i64 r = 0; r < h; r += MR, part++) {
			const float *soon = part < all ? far[part / parts] + next * g->n + part % parts * reach : own;
			block(k, own + r * k, g->pa + j * k, sums + r * w + j * MR, NR, 0, soon, part < all ? 16 : 0);
		}
	for (i64 r = 0; r < h; r += MR)
		change(g, sums + r * w, i + r, min(MR, h - r), 0, g->n);
}

// soonOf fetches what the step of a block at at changes.
static void soonOf(const job *g, i64 at)
{
	for (i64 r = 0; r < MR; r++, at += g->n) {
		fetch(g->w + at, NR);
		if (g->v)
			fetch(g->v + at, NR);
		if (g->u)
			fetch(g->u + at, NR);
	}
}

// tileOf is all rows of the columns from j0 on, depth by depth; pb is the thread's own memory.
static void tileOf(job *g, i64 j0, float *pb)
{
	i64 n = width(g, j0), w = up(n, NR) * NR;
	float *sums = pb + KC * NC;
	for (i64 p = 0; p < g->k; p += g->depth) {
		i64 k = min(g->depth, g->k - p);
		packB(pb, g->b + j0 * g->bj + p * g->bp, g->bj, g->bp, n, k);
		for (i64 i = 0; i < g->m; i += MR) {
			const float *a = g->pa + g->high * p + i * k;
			for (i64 j = 0; j < n; j += NR) {
				const float *b = pb + j * k, *next = a + MR * k + j / NR * AHEAD * k;
				float *c = g->c + i * g->n + j0 + j;
				float *sum = sums + i * w + j * MR, *part = p ? sum : 0;
				if (g->knobs && p + g->depth >= g->k)
					soonOf(g, i * g->n + j0 + j);
				if (g->knobs || p + g->depth < g->k)
					block(k, a, b, sum, NR, part, next, AHEAD);
				else if (g->m - i >= MR && n - j >= NR)
					block(k, a, b, c, g->n, part, next, AHEAD);
				else
					edge(k, a, b, c, g->n, part, next, min(MR, g->m - i), min(NR, n - j));
			}
			if (g->knobs && p + g->depth >= g->k)
				change(g, sums + i * w, i, min(MR, g->m - i), j0, n);
		}
	}
}

// W is eight letters of a message.
#define W(a, b, c, d, e, f, g, h) ((i64)(a) | (i64)(b) << 8 | (i64)(c) << 16 | (i64)(d) << 24 | (i64)(e) << 32 | (i64)(f) << 40 | (i64)(g) << 48 | (i64)(h) << 56)

// refuse is the error of a call whose shapes do not fit together.
static void *refuse(const api *x)
{
	i64 text[4] = { W('p', 'r', 'o', 'd', 'u', 'c', 't', ':'), W(' ', 's', 'h', 'a', 'p', 'e', 's', ' '), W('d', 'i', 's', 'a', 'g', 'r', 'e', 'e') };
	messageArgs m = { { sizeof m, 0 }, (char *)text, 3 };
	return x->errorCreate(&m);
}

// drop is the end of an error that nothing depends on.
static void drop(const api *x, void *error)
{
	errorArgs d = { { sizeof d, 0 }, error };
	if (error)
		x->errorDestroy(&d);
}

// work is a thread's share. Whoever is the last says that the product is there.
static void work(void *data)
{
	job *g = data;
	float *own = g->own + g->thread++ * g->room;
	for (i64 t; (t = g->strip++) < g->strips; g->packed++)
		stripOf(g, t);
	while (g->packed < g->strips) // others are at the last ones
		_mm_pause();
	if (g->wide)
		for (i64 t = g->tile++, next; t * TALL < g->m; t = next) {
			next = g->tile++;
			rowsOf(g, t * TALL, next * TALL, own);
		}
	else
		for (i64 j = 0, at = 0, t = g->tile++; j < g->n; j += width(g, j), at++)
			if (at == t) {
				tileOf(g, j, own);
				t = g->tile++;
			}
	const api *x = g->api;
	futureArgs f = { { sizeof f, 0 }, g->future };
	if (--g->left == 0 && f.future) // which ends the job's memory
		drop(x, x->futureAvailable(&f));
}

static i64 attribute(const frame *f, char a)
{
	for (i64 i = 0; i < f->attrs.n; i++) {
		span *s = f->attrs.names[i];
		if (s->len == 2 && s->name[0] == 't' && s->name[1] == a)
			return *(i64 *)f->attrs.list[i]->value;
	}
	return 0;
}

static int matrix(const buffer *b) { return b->dtype == 11 && b->rank == 2; }
static int same(const buffer *a, const buffer *b) { return matrix(a) && a->dims[0] == b->dims[0] && a->dims[1] == b->dims[1]; }

void *product(frame *f)
{
	extension *e = f->h.extension;
	if (e && e->type == 1) {
		e->metadata->major = f->api ? f->api->major : 0;
		e->metadata->minor = f->api ? f->api->minor : 3;
		e->metadata->traits = 0;
		return 0;
	}
	const i64 n = f->args.n, state = n > 3 ? n - 3 : 0; // of a step: see ../doc.go
	if (n < 2 || n == 3 || state > 3 || f->rets.n != (state > 0 ? state : 1) + 1)
		return refuse(f->api);
	buffer *a = f->args.list[0], *b = f->args.list[1], *c = f->rets.list[0], *s = f->rets.list[f->rets.n - 1];
	i64 ta = !!attribute(f, 'a'), tb = !!attribute(f, 'b');
	if (!matrix(a) || !matrix(b) || !matrix(c) || s->dtype != 11 || s->rank != 1 || s->dims[0] < HEAD || a->dims[ta] != c->dims[0] ||
	    b->dims[!tb] != c->dims[1] || a->dims[!ta] != b->dims[tb] || a->dims[!ta] < 1 || c->dims[0] < 1 || c->dims[1] < 1)
		return refuse(f->api);
	for (i64 i = 0; i < state; i++)
		if (!same(f->args.list[3 + i], c) || !same(f->rets.list[i], c))
			return refuse(f->api);
	if (state > 0 && (f->args.list[2]->dtype != 11 || f->args.list[2]->rank != 1 || f->args.list[2]->dims[0] != 7))
		return refuse(f->api);
	job *g = (job *)s->data;
	g->api = f->api;
	g->knobs = state > 0 ? f->args.list[2]->data : 0;
	g->w = state > 0 ? f->args.list[3]->data : 0;
	g->v = state > 1 ? f->args.list[4]->data : 0;
	g->u = state > 2 ? f->args.list[5]->data : 0;
	g->nv = state > 1 ? f->rets.list[1]->data : 0;
	g->nu = state > 2 ? f->rets.list[2]->data : 0;
	g->future = 0;
	g->a = a->data, g->b = b->data, g->c = c->data;
	g->m = c->dims[0], g->n = c->dims[1], g->k = a->dims[!ta];
	g->ai = ta ? 1 : g->k, g->ap = ta ? g->m : 1;
	g->bj = tb ? g->k : 1, g->bp = tb ? 1 : g->n;
	g->high = up(g->m, MR) * MR;
	g->depth = up(g->k, up(g->k, KC));
	g->wide = state > 0 && g->k <= KC && g->n * g->k <= WIDE;
	g->strips = up(g->wide ? g->n : g->m, STRIP);
	g->pa = s->data + HEAD;
	g->own = g->pa + up(g->wide ? up(g->n, NR) * NR * g->k : g->high * g->k, 16) * 16;
	g->room = g->wide ? up(TALL * g->k, 16) * 16 + up(g->n, NR) * NR * TALL : NC * (KC + g->high);
	g->strip = g->packed = g->tile = g->thread = 0;

	i64 threads = 1;
	threadsArgs ask = { { sizeof ask, 0 }, f->ctx, &threads };
	drop(f->api, f->api->threads(&ask)); // one, where there is no pool
	threads = min(threads, (s->dims[0] - (g->own - s->data)) / g->room);
	if (threads < 1)
		return refuse(f->api);
	if (g->m * g->n * g->k < ALONE)
		threads = 1;
	g->left = g->threads = threads;
	if (threads > 1) {
		futureArgs new = { { sizeof new, 0 }, 0 };
		void *err = f->api->futureCreate(&new);
		if (err)
			return err;
		f->future = g->future = new.future;
		taskArgs task = { { sizeof task, 0 }, f->ctx, work, g };
		for (i64 t = 1; t < threads; t++) {
			err = f->api->schedule(&task);
			if (err) { // all of it is this thread's
				drop(f->api, err);
				work(g);
			}
		}
	}
	work(g);
	return 0;
}
