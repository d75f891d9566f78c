// Products of float32 matrices as a handler of XLA's FFI: see ../doc.go. assemble.go makes
// ../gemm_amd64.s of it, for AVX-512 and for AVX2, so it has no data, calls no library, and is
// position independent.
#include "block.h"

enum { KC = 512, HEAD = 64, LEAST = 64, STRIP = 96, WIDE = 131072, ALONE = 4000000, AHEAD = (MR * NR + NC - 1) / NC };

// job is one product, at the beginning of its scratch memory.
typedef struct {
	team team;
	const float *a, *b;
	float *c, *pa, *own; // a packed; each thread's block of b and sums
	const float *knobs, *w, *v, *u; // see change: none, but where the product is a gradient
	float *nv, *nu;                 // v and u afterwards
	i64 m, n, k, ai, ap, bj, bp; // strides of a's rows and depth, of b's columns and depth
	i64 high;                    // m, full panels
	i64 wide, room;              // whether it is by rows, see rowsOf; each thread's own memory
	i64 depth, strips;           // of the blocks; of a, to be packed
	_Atomic i64 strip, packed, tile;
} job;

_Static_assert(sizeof(job) <= 4 * HEAD, "a job has room in front of its panels");

// edge is block for the h rows and w columns that there are.
static __attribute__((noinline)) void edge(i64 k, const float *a, const float *b, float *c, i64 ldc, const float *part, const float *next, i64 h, i64 w)
{
	float t[MR * NR];
	block(k, a, b, t, NR, part, next, AHEAD);
	for (i64 i = 0; i < h; i++)
		for (i64 j = 0; j < w; j++)
			c[i * ldc + j] = t[i * NR + j];
}

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
	i64 rest = g->n - j, w = g->team.threads < 2 ? NC : up(rest, 2 * g->team.threads * NR) * NR;
	return min(rest, w < LEAST ? LEAST : min(w, NC));
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

// work is a thread's share.
static void work(void *data)
{
	job *g = data;
	float *own = g->own + g->team.thread++ * g->room;
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
	leave(&g->team);
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
	if (asks(f))
		return 0;
	const i64 bad = W('p', 'r', 'o', 'd', 'u', 'c', 't', ':');
	const i64 n = f->args.n, state = n > 3 ? n - 3 : 0; // of a step: see ../doc.go
	if (n < 2 || n == 3 || state > 3 || f->rets.n != (state > 0 ? state : 1) + 1)
		return refuse(f->api, bad);
	buffer *a = f->args.list[0], *b = f->args.list[1], *c = f->rets.list[0], *s = f->rets.list[f->rets.n - 1];
	i64 ta = !!attribute(f, 'a'), tb = !!attribute(f, 'b');
	if (!matrix(a) || !matrix(b) || !matrix(c) || s->dtype != 11 || s->rank != 1 || s->dims[0] < HEAD || a->dims[ta] != c->dims[0] ||
	    b->dims[!tb] != c->dims[1] || a->dims[!ta] != b->dims[tb] || a->dims[!ta] < 1 || c->dims[0] < 1 || c->dims[1] < 1)
		return refuse(f->api, bad);
	for (i64 i = 0; i < state; i++)
		if (!shaped(f->args.list[3 + i], 2, c->dims[0], c->dims[1], 0) || !shaped(f->rets.list[i], 2, c->dims[0], c->dims[1], 0))
			return refuse(f->api, bad);
	if (state > 0 && !shaped(f->args.list[2], 1, 7, 0, 0))
		return refuse(f->api, bad);
	job *g = (job *)s->data;
	g->knobs = state > 0 ? f->args.list[2]->data : 0;
	g->w = state > 0 ? f->args.list[3]->data : 0;
	g->v = state > 1 ? f->args.list[4]->data : 0;
	g->u = state > 2 ? f->args.list[5]->data : 0;
	g->nv = state > 1 ? f->rets.list[1]->data : 0;
	g->nu = state > 2 ? f->rets.list[2]->data : 0;
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
	g->strip = g->packed = g->tile = 0;

	i64 threads = min(poolOf(f), (s->dims[0] - (g->own - s->data)) / g->room);
	if (threads < 1)
		return refuse(f->api, bad);
	return start(f, &g->team, g->m * g->n * g->k < ALONE ? 1 : threads, work);
}
