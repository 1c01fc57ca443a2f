/*
 * vision.c - VGG (Simonyan and Zisserman 2014) and residual networks for images of 224 x 224 and
 * 1000 classes (He et al. 2015), tensors named and ordered as torchvision registers them; and
 * linear, a stack of linear layers.
 *
 * FLOPs of an image: a k x k convolution from in to out channels costs 2 k² in out for each output
 * pixel. As in torchvision, the stride is that of a block's 3 x 3 convolution.
 */
#include "models/parts.h"

#include <stdio.h>
#include <string.h>

#define STAGES 4
#define CLASSES 1000
#define PREFIX 32

static const struct depth {
	int64_t layers;
	int blocks[STAGES];
	int expansion; /* 4: bottleneck blocks, 1: two 3 x 3 convolutions */
} depths[] = {
	{18, {2, 2, 2, 2}, 1},   {34, {3, 4, 6, 3}, 1},   {50, {3, 4, 6, 3}, 4},
	{101, {3, 4, 23, 3}, 4}, {152, {3, 8, 36, 3}, 4},
};

/* The activations between two layers. */
struct feature_map {
	int channels;
	int pixels; /* per side */
};

static const int widths[] = {64, 128, 256, 512, 512}; /* of VGG's stages */

static const struct vgg_depth {
	int64_t layers;
	int convolutions[5]; /* of each stage */
} vgg_depths[] = {
	{11, {1, 1, 2, 2, 2}},
	{13, {2, 2, 2, 2, 2}},
	{16, {2, 2, 3, 3, 3}},
	{19, {2, 2, 4, 4, 4}},
};

static void vgg_classify(struct bb_builder *b, int in, int out, int module)
{
	bb_build_product(b, 2.0 * in * out, true);
	bb_build_tensor(b, (uint64_t)out, (uint64_t)in, "classifier.%d.weight", module);
	bb_build_tensor(b, (uint64_t)out, 1, "classifier.%d.bias", module);
}

/* A convolution is followed by ReLU, a stage by pooling: modules without parameters, which
   torchvision numbers, too. */
void bb_build_vgg(struct bb_builder *b)
{
	const struct vgg_depth *depth = NULL;
	struct feature_map p = {3, 224};
	int module = 0;

	for (size_t i = 0; i < sizeof(vgg_depths) / sizeof(vgg_depths[0]); i++)
		if (vgg_depths[i].layers == b->model->hyper.layers)
			depth = &vgg_depths[i];
	if (!depth) {
		b->status = bb_fail(b->error, BB_EUSAGE,
				    "--model %s: no VGG has %lld layers; give 11, 13, 16 or 19",
				    b->model->name, (long long)b->model->hyper.layers);
		return;
	}
	for (b->layer = 0; b->layer < 5; b->layer++, module++, p.pixels /= 2)
		for (int i = 0; i < depth->convolutions[b->layer]; i++, module += 2) {
			const int out = widths[b->layer];

			bb_build_convolution(b, 2.0 * 9 * p.channels * out * p.pixels * p.pixels,
					     b->model->nworks > 0);
			bb_build_tensor(b, (uint64_t)out, (uint64_t)(9 * p.channels),
					"features.%d.weight", module);
			bb_build_tensor(b, (uint64_t)out, 1, "features.%d.bias", module);
			p.channels = out;
		}
	b->model->blocks = b->layer;
	vgg_classify(b, p.channels * p.pixels * p.pixels, 4096, 0);
	vgg_classify(b, 4096, 4096, 3);
	vgg_classify(b, 4096, CLASSES, 6);
}

/* A convolution and its batch norm. */
static void convolve(struct bb_builder *b, struct feature_map *p, int kernel, int stride, int out,
		     const char *prefix, const char *conv, const char *bn)
{
	const int area = kernel * kernel;
	const bool learns = b->model->nworks > 0;

	p->pixels /= stride;
	bb_build_product(b, 2.0 * area * p->channels * out * p->pixels * p->pixels, learns);
	bb_build_tensor(b, (uint64_t)out, (uint64_t)(p->channels * area), "%s%s.weight", prefix,
			conv);
	bb_build_light(b);
	bb_build_tensor(b, (uint64_t)out, 1, "%s%s.weight", prefix, bn);
	bb_build_tensor(b, (uint64_t)out, 1, "%s%s.bias", prefix, bn);
	p->channels = out;
}

static void residual_block(struct bb_builder *b, struct feature_map *p, int width, int stride,
			   int expansion, const char *prefix)
{
	struct feature_map side = *p;
	const int out = width * expansion;

	if (expansion == 1) {
		convolve(b, p, 3, stride, width, prefix, "conv1", "bn1");
		convolve(b, p, 3, 1, width, prefix, "conv2", "bn2");
	} else {
		convolve(b, p, 1, 1, width, prefix, "conv1", "bn1");
		convolve(b, p, 3, stride, width, prefix, "conv2", "bn2");
		convolve(b, p, 1, 1, out, prefix, "conv3", "bn3");
	}
	if (stride != 1 || side.channels != out)
		convolve(b, &side, 1, stride, out, prefix, "downsample.0", "downsample.1");
}

void bb_build_resnet(struct bb_builder *b)
{
	const struct depth *depth = NULL;
	struct feature_map p = {3, 224};
	char prefix[PREFIX];

	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		if (depths[i].layers == b->model->hyper.layers)
			depth = &depths[i];
	if (!depth) {
		b->status = bb_fail(b->error, BB_EUSAGE,
				    "--model %s: no ResNet has %lld layers; give 18, 34, 50, 101 "
				    "or 152",
				    b->model->name, (long long)b->model->hyper.layers);
		return;
	}
	convolve(b, &p, 7, 2, 64, "", "conv1", "bn1");
	p.pixels /= 2; /* max pooling */
	b->layer = 0;
	for (int stage = 0; stage < STAGES; stage++)
		for (int i = 0; i < depth->blocks[stage]; i++, b->layer++) {
			snprintf(prefix, sizeof(prefix), "layer%d.%d.", stage + 1, i);
			residual_block(b, &p, 64 << stage, stage > 0 && i == 0 ? 2 : 1,
				       depth->expansion, prefix);
		}
	b->model->blocks = b->layer;
	bb_build_product(b, 2.0 * p.channels * CLASSES, true);
	bb_build_tensor(b, CLASSES, (uint64_t)p.channels, "fc.weight");
	bb_build_tensor(b, CLASSES, 1, "fc.bias");
}

void bb_build_linear(struct bb_builder *b)
{
	const uint64_t width = (uint64_t)b->model->hyper.hidden;

	b->model->blocks = (int)b->model->hyper.layers;
	for (int i = 0; i < b->model->blocks; i++) {
		b->layer = i;
		bb_build_product(b, 2.0 * (double)width * (double)width, i > 0);
		bb_build_tensor(b, width, width, "%d.weight", i);
		bb_build_tensor(b, width, 1, "%d.bias", i);
	}
}
