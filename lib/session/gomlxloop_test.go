package session

import (
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/dataset"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/metric"
	"github.com/gomlx/gomlx/ml/train/optimizer"
)

// trainGoMLX is a program as GoMLX's users write it, with nothing of ours: it trains
// for some steps from the checkpoint in dir, saves the next one there, and returns
// the loss and the accuracy of all examples.
func trainGoMLX(backend compute.Backend, dir string, steps int) (scores []float64, err error) {
	const n = 90
	x, y := make([]float32, n*3), make([]int32, n)
	rng := rand.New(rand.NewSource(1))
	for i := range x {
		x[i] = rng.Float32() - 0.5
	}
	for i := range y {
		if x[3*i]*x[3*i+1] > x[3*i+2]/4 {
			y[i] = 1
		}
	}
	all, err := dataset.InMemoryFromData(backend, "points", []any{tensors.FromFlatDataAndDimensions(x, n, 3)}, []any{tensors.FromFlatDataAndDimensions(y, n, 1)})
	if err != nil {
		return nil, err
	}
	batches := all.Copy().WithRand(rng).Shuffle().BatchSize(32, true).Infinite(true)
	store := model.NewStore()
	store.SetParam(optimizer.ParamLearningRate, 0.02)
	handler, err := checkpoint.Build(store).Dir(dir).Keep(2).Done()
	if err != nil {
		return nil, err
	}
	net := func(scope *model.Scope, x *Node) *Node {
		x = activation.Relu(layers.Dense(scope.In("hidden"), x, true, 16))
		x = norm.LayerNorm(scope.In("norm"), x, -1).Done()
		return layers.Dense(scope.In("out"), x, true, 2)
	}
	trainer := train.NewTrainer(backend, store, net, loss.SparseCategoricalCrossEntropyLogits, optimizer.Adam().Done(), nil,
		[]metric.Interface{metric.NewSparseCategoricalAccuracy("accuracy", "acc")})
	loop := train.NewLoop(trainer)
	train.EveryNSteps(loop, steps, "checkpoint", 100, func(*train.Loop, []*tensors.Tensor) error { return handler.Save() })
	if _, err := loop.RunSteps(batches, steps); err != nil {
		return nil, err
	}
	found, err := trainer.Eval(all.BatchSize(40, false))
	for _, v := range found {
		scores = append(scores, float64(tensors.ToScalar[float32](v)))
	}
	return scores, err
}

// gomlxCell is a cell that trains and ends.
func gomlxCell(dir string) error {
	backend, err := compute.NewWithConfig("gaiden:loop")
	if err == nil {
		_, err = trainGoMLX(backend, dir, 20)
	}
	return err
}

// TestGoMLXLoop: GoMLX's training loop with its datasets, layers, metrics and
// checkpoints continues in a second cell what a first one has started, and computes
// what GoMLX's backend in pure Go computes.
func TestGoMLXLoop(t *testing.T) {
	p := serve(t)
	pure, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	want, ours := t.TempDir(), t.TempDir()
	if _, err := trainGoMLX(pure, want, 1); err != nil { // the first weights are drawn
		t.Fatal(err)
	}
	if err := os.CopyFS(ours, os.DirFS(want)); err != nil {
		t.Fatal(err)
	}
	if _, err := trainGoMLX(pure, want, 20); err != nil {
		t.Fatal(err)
	}
	scores, err := trainGoMLX(pure, want, 20)
	if err != nil {
		t.Fatal(err)
	}
	cell := exec.Command("/proc/self/exe", ours)
	cell.Env = append(os.Environ(), "GAIDEN_TEST_ROLE=gomlx", "GAIDEN_SOCKET="+p.socket)
	if out, err := cell.CombinedOutput(); err != nil {
		t.Fatalf("first cell: %v: %s", err, out)
	}
	got, err := trainGoMLX(p.open("loop").Backend(), ours, 20)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range scores {
		if math.Abs(got[i]-w) > 1e-3*max(1, math.Abs(w)) {
			t.Errorf("scores are %v, want %v", got, scores)
			break
		}
	}
	if loss, accuracy := got[0], got[1]; loss > 0.45 || accuracy < 0.8 {
		t.Errorf("loss %v, accuracy %v: the net has not learned", loss, accuracy)
	}
	if files, err := filepath.Glob(ours + "/*.json"); len(files) != 2 || err != nil {
		t.Errorf("checkpoints are %v, %v; want the last 2", files, err)
	}
}
