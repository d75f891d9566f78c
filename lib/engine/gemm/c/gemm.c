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

enum { MR = 12, NR = 32, KC = 384, NC = 512, HEAD = 64, ALONE = 4000000 };

// job is one product, at the beginning of its scratch memory.
typedef struct {
	const api *api;
	void *future;
	const float *a, *b;
	float *c, *pa, *pb;
	i64 m, n, k, ai, ap, bj, bp; // strides of a's rows and depth, of b's columns and depth
	i64 rows, cols, depth; // of a tile
	i64 wide;              // tiles beside each other
	i64 panels, tiles;     // of a; of c
	_Atomic i64 panel, packed, tile, thread, left;
} job;

_Static_assert(sizeof(job) <= 4 * HEAD, "a job has room in front of its panels");

static inline i64 min(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 up(i64 a, i64 b) { return (a + b - 1) / b; }

// block adds a panel of a [k 12] times one of b [k 32] to c, or sets it.
static __attribute__((noinline)) void block(i64 k, const float *a, const float *b, float *c, i64 ldc, int set)
{
	__m512 r[MR][2];
#pragma GCC unroll 12
	for (int i = 0; i < MR; i++) {
		_mm_prefetch(c + i * ldc, _MM_HINT_T0);
		_mm_prefetch(c + i * ldc + 31, _MM_HINT_T0);
		r[i][0] = r[i][1] = _mm512_setzero_ps();
	}
	for (i64 p = 0; p < k; p++, a += MR, b += NR) {
		__m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
		_mm_prefetch(b + 8 * NR, _MM_HINT_T0);
		_mm_prefetch(b + 8 * NR + 16, _MM_HINT_T0);
#pragma GCC unroll 12
		for (int i = 0; i < MR; i++) {
			__m512 x = _mm512_set1_ps(a[i]);
			r[i][0] = _mm512_fmadd_ps(x, b0, r[i][0]);
			r[i][1] = _mm512_fmadd_ps(x, b1, r[i][1]);
		}
	}
#pragma GCC unroll 12
	for (int i = 0; i < MR; i++, c += ldc) {
		if (!set) {
			r[i][0] = _mm512_add_ps(_mm512_loadu_ps(c), r[i][0]);
			r[i][1] = _mm512_add_ps(_mm512_loadu_ps(c + 16), r[i][1]);
		}
		_mm512_storeu_ps(c, r[i][0]);
		_mm512_storeu_ps(c + 16, r[i][1]);
	}
}

// edge is block for the h rows and w columns that there are.
static __attribute__((noinline)) void edge(i64 k, const float *a, const float *b, float *c, i64 ldc, int set, i64 h, i64 w)
{
	float t[MR * NR];
	block(k, a, b, t, NR, 1);
	for (i64 i = 0; i < h; i++)
		for (i64 j = 0; j < w; j++)
			c[i * ldc + j] = set ? t[i * NR + j] : c[i * ldc + j] + t[i * NR + j];
}

// pack writes n ≤ w rows of depth k as [k w]: rows lie ri apart, their numbers rp.
static inline __attribute__((always_inline)) void pack(float *d, const float *s, i64 ri, i64 rp, i64 n, i64 k, const int w)
{
	i64 p = 0;
	if (n < w) {
		for (; p < k; p++)
			for (i64 i = 0; i < w; i++)
				d[p * w + i] = i < n ? s[i * ri + p * rp] : 0;
		return;
	}
	if (ri == 1) {
		for (; p < k; p++, s += rp, d += w)
			for (int i = 0; i < w; i += 4)
				_mm_storeu_ps(d + i, _mm_loadu_ps(s + i));
		return;
	}
	for (; p + 4 <= k; p += 4, d += 4 * w, s += 4) {
#pragma GCC unroll 8
		for (int i = 0; i < w; i += 4) {
			const float *q = s + i * ri;
			__m128 x = _mm_loadu_ps(q), y = _mm_loadu_ps(q + ri), z = _mm_loadu_ps(q + 2 * ri), u = _mm_loadu_ps(q + 3 * ri);
			_MM_TRANSPOSE4_PS(x, y, z, u);
			_mm_storeu_ps(d + i, x);
			_mm_storeu_ps(d + w + i, y);
			_mm_storeu_ps(d + 2 * w + i, z);
			_mm_storeu_ps(d + 3 * w + i, u);
		}
	}
	for (; p < k; p++, d += w, s++)
		for (int i = 0; i < w; i++)
			d[i] = s[i * ri];
}

static __attribute__((noinline)) void packA(float *d, const float *s, i64 ri, i64 rp, i64 n, i64 k) { pack(d, s, ri, rp, n, k, MR); }
static __attribute__((noinline)) void packB(float *d, const float *s, i64 ri, i64 rp, i64 n, i64 k) { pack(d, s, ri, rp, n, k, NR); }

// panelOf packs a's rows from MR·i on, for all depths.
static void panelOf(job *g, i64 i)
{
	i64 all = up(g->m, MR) * MR;
	for (i64 p = 0; p < g->k; p += g->depth) {
		i64 k = min(g->depth, g->k - p);
		packA(g->pa + all * p + i * MR * k, g->a + i * MR * g->ai + p * g->ap, g->ai, g->ap, min(MR, g->m - i * MR), k);
	}
}

static void tileOf(job *g, i64 t, float *pb)
{
	i64 j0 = t % g->wide * g->cols, i0 = t / g->wide * g->rows, all = up(g->m, MR) * MR;
	i64 n = min(g->cols, g->n - j0), m = min(g->rows, g->m - i0);
	for (i64 p = 0; p < g->k; p += g->depth) {
		i64 k = min(g->depth, g->k - p);
		for (i64 j = 0; j < n; j += NR)
			packB(pb + j * k, g->b + (j0 + j) * g->bj + p * g->bp, g->bj, g->bp, min(NR, n - j), k);
		for (i64 i = 0; i < m; i += MR) {
			const float *a = g->pa + all * p + (i0 + i) * k;
			for (i64 j = 0; j < n; j += NR) {
				float *c = g->c + (i0 + i) * g->n + j0 + j;
				if (m - i >= MR && n - j >= NR)
					block(k, a, pb + j * k, c, g->n, p == 0);
				else
					edge(k, a, pb + j * k, c, g->n, p == 0, min(MR, m - i), min(NR, n - j));
			}
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
	float *pb = g->pb + g->thread++ * NC * KC;
	for (i64 i; (i = g->panel++) < g->panels; g->packed++)
		panelOf(g, i);
	while (g->packed < g->panels) // others are at the last ones
		_mm_pause();
	for (i64 t; (t = g->tile++) < g->tiles;)
		tileOf(g, t, pb);
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

void *product(frame *f)
{
	extension *e = f->h.extension;
	if (e && e->type == 1) {
		e->metadata->major = f->api ? f->api->major : 0;
		e->metadata->minor = f->api ? f->api->minor : 3;
		e->metadata->traits = 0;
		return 0;
	}
	if (f->args.n != 2 || f->rets.n != 2)
		return refuse(f->api);
	buffer *a = f->args.list[0], *b = f->args.list[1], *c = f->rets.list[0], *s = f->rets.list[1];
	i64 ta = !!attribute(f, 'a'), tb = !!attribute(f, 'b');
	if (!matrix(a) || !matrix(b) || !matrix(c) || s->dtype != 11 || s->rank != 1 || s->dims[0] < HEAD || a->dims[ta] != c->dims[0] ||
	    b->dims[!tb] != c->dims[1] || a->dims[!ta] != b->dims[tb] || a->dims[!ta] < 1 || c->dims[0] < 1 || c->dims[1] < 1)
		return refuse(f->api);
	job *g = (job *)s->data;
	g->api = f->api;
	g->future = 0;
	g->a = a->data, g->b = b->data, g->c = c->data;
	g->m = c->dims[0], g->n = c->dims[1], g->k = a->dims[!ta];
	g->ai = ta ? 1 : g->k, g->ap = ta ? g->m : 1;
	g->bj = tb ? g->k : 1, g->bp = tb ? 1 : g->n;
	g->depth = up(g->k, up(g->k, KC));
	g->panels = up(g->m, MR);
	g->pa = s->data + HEAD;
	g->pb = g->pa + up(g->panels * MR * g->k, 16) * 16;
	g->panel = g->packed = g->tile = g->thread = 0;

	i64 threads = 1;
	threadsArgs ask = { { sizeof ask, 0 }, f->ctx, &threads };
	drop(f->api, f->api->threads(&ask)); // one, where there is no pool
	threads = min(threads, (s->dims[0] - (g->pb - s->data)) / (NC * KC));
	if (threads < 1)
		return refuse(f->api);
	if (g->m * g->n * g->k < ALONE)
		threads = 1;
	i64 wide = up(g->n, NC);
	if (wide > 1 && wide % threads)
		wide += threads - wide % threads;
	g->cols = up(up(g->n, wide), NR) * NR;
	g->wide = up(g->n, g->cols);
	i64 tall = up(threads, g->wide);
	g->rows = up(up(g->m, tall), MR) * MR;
	g->tiles = g->wide * up(g->m, g->rows);
	g->left = threads;
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
