package models

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// added is where GoMLX's regularizers put their losses: theirs count, too.
const added = "/trainer/trainer_regularization_loss"

// AddLoss adds to the loss of a net, from the Apply of a layer or a Function: a regularizer, or
// the KL divergence of a variational autoencoder. What is not a scalar counts with its mean.
//
//	models.AddLoss(graph.MulScalar(graph.ReduceAllSum(graph.Square(weights)), 1e-4))
func AddLoss(loss *Node) {
	if !loss.Shape().IsScalar() {
		loss = ReduceAllMean(loss)
	}
	loss = ConvertDType(loss, dtypes.Float32)
	if so := AddedLoss(loss.Graph()); so != nil {
		loss = Add(so, loss)
	}
	model.SetGraphParam(loss.Graph(), added, loss)
}

// AddedLoss is the sum of what layers have added in a graph, nil if none has.
func AddedLoss(g *Graph) *Node {
	if x, is := model.GetGraphParam(g, added); is {
		return x.(*Node)
	}
	return nil
}

// ResetAddedLoss makes it 0, before a net is built once more in the same graph.
func ResetAddedLoss(g *Graph) {
	model.SetGraphParam(g, added, Scalar(g, dtypes.Float32, 0))
}
