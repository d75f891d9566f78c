package models

import "fmt"

// ResNet152 is the net of notebook 04's article for CIFAR-10: bottleneck blocks 3-8-36-3.
// 58,164,298 parameters that are trained, 151,424 running means.
func ResNet152() Net { return ResNet("ResNet152", 3, 8, 36, 3) }

// ResNet50 is the smaller brother that notebook 06's article times.
func ResNet50() Net { return ResNet("ResNet50", 3, 4, 6, 3) }

// ResNet is a residual net of bottleneck blocks for 32×32 images in ten classes
// (He et al., 2015, table 1, with its 7×7 stem and pooling as in Chainer). Each
// of depths is the number of blocks of a stage; a stage halves the image and
// doubles the channels.
func ResNet(name string, depths ...int) Net {
	layers := []Layer{
		Conv2D{Name: "conv1", Channels: 64, Kernel: 7, Stride: 2, Pad: 3, NoBias: true, Init: He}, // [n 16 16 64]
		BatchNorm{Name: "bn1", Act: ReLU},
		MaxPool2D{Name: "pool1", Window: 3, Stride: 2, Pad: 1}, // [n 8 8 64]
	}
	var wrong error
	in, width := 64, 64
	for stage, depth := range depths {
		if depth < 1 {
			wrong = fmt.Errorf("models: ResNet %s: stage %d has %d blocks: want 1 or more", name, stage+1, depth)
		}
		for block := range depth {
			stride := 1
			if block == 0 && stage > 0 {
				stride = 2
			}
			layers = append(layers, bottleneck(fmt.Sprintf("res%d_%d", stage+2, block+1), in, width, stride)) // [n side side 4·width]
			in = 4 * width
		}
		width *= 2
	}
	return Net{Name: name, Input: []int{32, 32, 3}, wrong: wrong, Layers: append(layers,
		GlobalAvgPool{Name: "pool5"},               // [n 2048]
		Dense{Name: "fc6", Units: 10, Init: LeCun}, // [n 10]
	)}
}

// bottleneck is a block: 1×1 to width channels, 3×3, 1×1 to four times as many.
// The stride is in the 3×3, as in PyTorch.
func bottleneck(name string, in, width, stride int) Layer {
	conv := func(name string, channels, kernel, stride int) Layer {
		return Conv2D{Name: name, Channels: channels, Kernel: kernel, Stride: stride, Pad: kernel / 2, NoBias: true, Init: He}
	}
	r := Residual{Name: name, Act: ReLU, Main: []Layer{
		conv("conv1", width, 1, 1), BatchNorm{Name: "bn1", Act: ReLU},
		conv("conv2", width, 3, stride), BatchNorm{Name: "bn2", Act: ReLU},
		conv("conv3", 4*width, 1, 1), BatchNorm{Name: "bn3"},
	}}
	if in != 4*width || stride > 1 {
		r.Skip = []Layer{conv("conv4", 4*width, 1, stride), BatchNorm{Name: "bn4"}}
	}
	return r
}
