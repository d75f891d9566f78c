// Products of float32 matrices as a handler of XLA's FFI: see ../doc.go. assemble.go makes
// ../gemm_amd64.s of it, so it has no data, calls no library, and is position independent.
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

enum { MR = 12, NR = 32, KC = 512, NC = 256, HEAD = 64, LEAST = 64, STRIP = 96, WIDE = 131072, ALONE = 4000000 };

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

// block sets c to a panel of a [k 12] times one of b [k 32], and to part's sums with them if
// there are any. It fetches what it will be asked for next: a number in each stride, k of them.
static __attribute__((noinline)) void block(i64 k, const float *a, const float *b, float *c, i64 ldc, const float *part, const float *next, i64 stride)
{
	__m512 r[MR][2];
#pragma GCC unroll 12
	for (int i = 0; i < MR; i++) {
		if (part) {
			_mm_prefetch(part + i * NR, _MM_HINT_T0);
			_mm_prefetch(part + i * NR + 16, _MM_HINT_T0);
		}
		_mm_prefetch(c + i * ldc, _MM_HINT_T0);
		_mm_prefetch(c + i * ldc + 31, _MM_HINT_T0);
		r[i][0] = r[i][1] = _mm512_setzero_ps();
	}
	for (i64 p = 0; p < k; p++, a += MR, b += NR, next += stride) {
		__m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
		_mm_prefetch(b + 8 * NR, _MM_HINT_T0);
		_mm_prefetch(b + 8 * NR + 16, _MM_HINT_T0);
		_mm_prefetch(next, _MM_HINT_T1);
#pragma GCC unroll 12
		for (int i = 0; i < MR; i++) {
			__m512 x = _mm512_set1_ps(a[i]);
			r[i][0] = _mm512_fmadd_ps(x, b0, r[i][0]);
			r[i][1] = _mm512_fmadd_ps(x, b1, r[i][1]);
		}
	}
#pragma GCC unroll 12
	for (int i = 0; i < MR; i++, c += ldc) {
		if (part) {
			r[i][0] = _mm512_add_ps(_mm512_loadu_ps(part + i * NR), r[i][0]);
			r[i][1] = _mm512_add_ps(_mm512_loadu_ps(part + i * NR + 16), r[i][1]);
		}
		_mm512_storeu_ps(c, r[i][0]);
		_mm512_storeu_ps(c + 16, r[i][1]);
	}
}

// edge is block for the h rows and w columns that there are.
static __attribute__((noinline)) void edge(i64 k, const float *a, const float *b, float *c, i64 ldc, const float *part, const float *next, i64 h, i64 w)
{
	float t[MR * NR];
	block(k, a, b, t, NR, part, next, 2);
	for (i64 i = 0; i < h; i++)
		for (i64 j = 0; j < w; j++)
			c[i * ldc + j] = t[i * NR + j];
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
					_mm_storeu_ps(d + j * k + p * w + i, _mm_loadu_ps(s + p * rp + j + i));
	else
		for (i64 j = 0; j < full; j += w) {
			const float *from = s + j * ri;
			float *to = d + j * k;
			i64 p = 0;
			for (; p + 4 <= k; p += 4, to += 4 * w, from += 4) {
#pragma GCC unroll 8
				for (int i = 0; i < w; i += 4) {
					const float *q = from + i * ri;
					__m128 x = _mm_loadu_ps(q), y = _mm_loadu_ps(q + ri), z = _mm_loadu_ps(q + 2 * ri), u = _mm_loadu_ps(q + 3 * ri);
					_MM_TRANSPOSE4_PS(x, y, z, u);
					_mm_storeu_ps(to + i, x);
					_mm_storeu_ps(to + w + i, y);
					_mm_storeu_ps(to + 2 * w + i, z);
					_mm_storeu_ps(to + 3 * w + i, u);
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

// change is a step: h rows of a gradient from row i on, columns j0 to j0 + n, lie in d as
// blocks leave them. It is Adam's where there is u, else SGD's, with momentum where there is v.
static __attribute__((noinline)) void change(const job *g, const float *d, i64 i, i64 h, i64 j0, i64 n)
{
	const float *q = g->knobs;
	const __m512 rate = _mm512_set1_ps(q[0]), k1 = _mm512_set1_ps(q[1]), l1 = _mm512_set1_ps(q[2]), k2 = _mm512_set1_ps(q[3]),
		l2 = _mm512_set1_ps(q[4]), scale = _mm512_set1_ps(q[5]), least = _mm512_set1_ps(q[6]);
	for (i64 r = 0; r < h; r++)
		for (i64 j = 0; j < n; j += 16) {
			const i64 at = (i + r) * g->n + j0 + j;
			const __mmask16 some = n - j < 16 ? (1 << (n - j)) - 1 : 0xffff;
			__m512 x = _mm512_loadu_ps(d + j / NR * NR * MR + r * NR + j % NR);
			if (g->v) {
				__m512 v = _mm512_add_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(some, g->v + at), k1), _mm512_mul_ps(x, l1));
				_mm512_mask_storeu_ps(g->nv + at, some, v);
				if (g->u) {
					__m512 u = _mm512_add_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(some, g->u + at), k2), _mm512_mul_ps(_mm512_mul_ps(x, x), l2));
					_mm512_mask_storeu_ps(g->nu + at, some, u);
					v = _mm512_div_ps(v, _mm512_add_ps(_mm512_mul_ps(_mm512_sqrt_ps(u), scale), least));
				}
				x = v;
			}
			_mm512_mask_storeu_ps(g->c + at, some, _mm512_sub_ps(_mm512_maskz_loadu_ps(some, g->w + at), _mm512_mul_ps(rate, x)));
		}
}

// rowsOf is the step of MR rows from row i on, of one depth, with all of b, which is packed in
// place of a; own is the thread's own memory. It fetches the rows from row next on meanwhile.
static void rowsOf(const job *g, i64 i, i64 next, float *own)
{
	const i64 h = min(MR, g->m - i), k = g->k, reach = 16 * k, parts = up(MR * g->n, reach);
	const float *far[] = { g->w, g->v, g->u };
	const i64 all = parts * (g->u ? 3 : g->v ? 2 : 1);
	float *sums = own + up(MR * k, 16) * 16;
	packA(own, g->a + i * g->ai, g->ai, g->ap, h, k);
	for (i64 j = 0, part = 0; j < g->n; j += NR, part++) {
		const float *fetch = part < all ? far[part / parts] + next * g->n + part % parts * reach : own;
		block(k, own, g->pa + j * k, sums + j * MR, NR, 0, fetch, part < all ? 16 : 0);
	}
	change(g, sums, i, h, 0, g->n);
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
				const float *b = pb + j * k, *next = a + MR * k + j / NR * 2 * k;
				float *c = g->c + i * g->n + j0 + j;
				float *sum = sums + i * w + j * MR, *part = p ? sum : 0;
				if (g->knobs || p + g->depth < g->k)
					block(k, a, b, sum, NR, part, next, 2);
				else if (g->m - i >= MR && n - j >= NR)
					block(k, a, b, c, g->n, part, next, 2);
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
		for (i64 t = g->tile++, next; t * MR < g->m; t = next) {
			next = g->tile++;
			rowsOf(g, t * MR, next * MR, own);
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
	g->room = g->wide ? up(MR * g->k, 16) * 16 + up(g->n, NR) * NR * MR : NC * (KC + g->high);
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
