/**
 * Gradient of the input of a convolution. For each pixel, it is a sum over the taps of the filter:
 * dy times the transposed weights of the tap. With a stride, a pixel meets only every stride-th row
 * and column of the filter. So pixels are grouped by their residue modulo the stride: all pixels of
 * a group have the same taps, and each group is a dense matrix product. TensorFlow.js instead
 * multiplies by zeros for the taps that a pixel does not meet.
 */
import type * as tf from '@tensorflow/tfjs';
import type { WebGpuBackend } from '../../backend.ts';
import {
  FLAT_WORKGROUP_CODE,
  runGpuProgram,
  spreadWorkgroups,
  type BufferComponentCount,
  type GpuProgram,
} from '../../program.ts';
import { loadWidthOf } from '../rows.ts';
import {
  channelReaderCode,
  convolutionTileColumnsFor,
  convolutionUniformsOf,
  type ConvolutionGeometry,
} from './geometry.ts';

/** Pixels of a tile. A thread computes 4 pixels of 4 channels. */
const TILE_ROWS = 64;
const THREAD_ROWS = TILE_ROWS / 4;
/** Vectors of 4 channels of dy in workgroup memory, for each pixel. */
const TILE_INNER = 4;

export interface InputGradientOperands {
  dy: tf.TensorInfo;
  filter: tf.TensorInfo;
  /** The results of ReLU, if this is the activation: dy counts only where they are positive. */
  y: tf.TensorInfo | undefined;
}

/**
 * Both tiles are in workgroup memory as [vector][row], and their products are dot products, so
 * neither dy nor the filter is transposed. Rows and columns of a thread lie apart, so that threads
 * of a warp read consecutive vec4.
 */
function codeOf(columns: number, components: BufferComponentCount, isMasked: boolean): string {
  const threadColumns = columns / 4;
  const threads = THREAD_ROWS * threadColumns;
  const perThread = [0, 1, 2, 3];
  return `
var<workgroup> origins: array<vec3<i32>, ${TILE_ROWS}>;
var<workgroup> gradientTile: array<array<vec4<f32>, ${TILE_ROWS}>, ${TILE_INNER}>;
var<workgroup> weightTile: array<array<vec4<f32>, ${columns}>, ${TILE_INNER}>;
var<workgroup> vectorsOfGroup: i32;
${FLAT_WORKGROUP_CODE}
${channelReaderCode('readGradient', 'dy', components, isMasked ? 'y' : null)}
${channelReaderCode('readWeights', 'weights', components)}

/** Pixels with the same residue modulo the stride. */
struct Group { residue: vec2<i32>, size: vec2<i32>, firstTap: vec2<i32>, taps: vec2<i32> }

fn groupOf(index: i32) -> Group {
  let stride = vec2<i32>(uniforms.strideHeight, uniforms.strideWidth);
  let residue = vec2<i32>(index / stride.y, index % stride.y);
  let size = (vec2<i32>(uniforms.inHeight, uniforms.inWidth) - residue + stride - 1) / stride;
  let firstTap = (residue + vec2<i32>(uniforms.padTop, uniforms.padLeft)) % stride;
  let taps = (vec2<i32>(uniforms.filterHeight, uniforms.filterWidth) - firstTap + stride - 1) / stride;
  return Group(residue, size, firstTap, taps);
}

/** Image, row and column of a pixel; image -1 after the last pixel. */
fn pixelOf(group: Group, index: i32) -> vec3<i32> {
  let pixels = group.size.x * group.size.y;
  if (index >= uniforms.images * pixels) { return vec3<i32>(-1, 0, 0); }
  let at = index % pixels;
  let position = vec2<i32>(at / group.size.y, at % group.size.y);
  let stride = vec2<i32>(uniforms.strideHeight, uniforms.strideWidth);
  return vec3<i32>(index / pixels, group.residue + stride * position);
}

/** Row of images in dy; row and column in dy of the pixel's first tap. */
fn originOf(group: Group, index: i32) -> vec3<i32> {
  let pixel = pixelOf(group, index);
  // A row far above the image makes all elements zeros.
  if (pixel.x < 0) { return vec3<i32>(0, -0x40000000, 0); }
  let stride = vec2<i32>(uniforms.strideHeight, uniforms.strideWidth);
  let padding = vec2<i32>(uniforms.padTop, uniforms.padLeft);
  return vec3<i32>(pixel.x * uniforms.outHeight, (pixel.yz + padding - group.firstTap) / stride);
}

/** Four channels of dy. */
fn gradientAt(origin: vec3<i32>, tap: vec2<i32>, channel: i32) -> vec4<f32> {
  let at = origin.yz - tap;
  if (any(at < vec2<i32>(0)) || any(at >= vec2<i32>(uniforms.outHeight, uniforms.outWidth))) { return vec4<f32>(0.0); }
  return readGradient((origin.x + at.x) * uniforms.outWidth + at.y, channel);
}

fn write(pixel: vec3<i32>, channel: i32, sum: vec4<f32>) {
  if (pixel.x < 0) { return; }
  let at = ((pixel.x * uniforms.inHeight + pixel.y) * uniforms.inWidth + pixel.z) * uniforms.inChannels;
  ${perThread.map((i) => `if (channel + ${i * threadColumns} < uniforms.inChannels) { result[at + channel + ${i * threadColumns}] = sum[${i}]; }`).join('\n  ')}
}

fn main() {
  let thread = i32(localIndex);
  let columnTiles = (uniforms.inChannels + ${columns - 1}) / ${columns};
  let tile = flatWorkgroup() % uniforms.tiles;
  // Workgroups after the last group compute the last group too, because WGSL rejects barriers after
  // a return.
  let group = groupOf(min(flatWorkgroup() / uniforms.tiles, uniforms.strideHeight * uniforms.strideWidth - 1));
  let firstPixel = tile / columnTiles * ${TILE_ROWS};
  let firstChannel = tile % columnTiles * ${columns};
  let vectorsOfTap = (uniforms.outChannels + 3) / 4;
  for (var i = thread; i < ${TILE_ROWS}; i += ${threads}) { origins[i] = originOf(group, firstPixel + i); }
  if (thread == 0) { vectorsOfGroup = group.taps.x * group.taps.y * vectorsOfTap; }
  let vectors = workgroupUniformLoad(&vectorsOfGroup);
  ${perThread.map((i) => `var sum${i} = vec4<f32>(0.0);`).join(' ')}
  for (var k = 0; k < vectors; k += ${TILE_INNER}) {
    workgroupBarrier();
    // A thread reads the same vector of several pixels and of several columns.
    let vector = k + thread % ${TILE_INNER};
    let isInside = vector < vectors;
    let tapIndex = vector / vectorsOfTap;
    let outChannel = vector % vectorsOfTap * 4;
    let tap = vec2<i32>(tapIndex / max(group.taps.y, 1), tapIndex % max(group.taps.y, 1));
    for (var i = thread / ${TILE_INNER}; i < ${TILE_ROWS}; i += ${threads / TILE_INNER}) {
      var value = vec4<f32>(0.0);
      if (isInside) { value = gradientAt(origins[i], tap, outChannel); }
      gradientTile[thread % ${TILE_INNER}][i] = value;
    }
    let filterTap = group.firstTap + tap * vec2<i32>(uniforms.strideHeight, uniforms.strideWidth);
    let filterRow = (filterTap.x * uniforms.filterWidth + filterTap.y) * uniforms.inChannels;
    for (var i = thread / ${TILE_INNER}; i < ${columns}; i += ${threads / TILE_INNER}) {
      var value = vec4<f32>(0.0);
      if (isInside && firstChannel + i < uniforms.inChannels) {
        value = readWeights(filterRow + firstChannel + i, outChannel);
      }
      weightTile[thread % ${TILE_INNER}][i] = value;
    }
    workgroupBarrier();
    let column = thread % ${threadColumns};
    let row = thread / ${threadColumns};
    for (var vector = 0; vector < ${TILE_INNER}; vector++) {
      ${perThread.map((i) => `let w${i} = weightTile[vector][column + ${i * threadColumns}];`).join('\n      ')}
      ${perThread
        .map(
          (i) => `let g${i} = gradientTile[vector][row + ${i * THREAD_ROWS}];
      sum${i} += vec4<f32>(dot(g${i}, w0), dot(g${i}, w1), dot(g${i}, w2), dot(g${i}, w3));`,
        )
        .join('\n      ')}
    }
  }
  let channel = firstChannel + thread % ${threadColumns};
  let pixel = firstPixel + thread / ${threadColumns};
  ${perThread.map((i) => `write(pixelOf(group, pixel + ${i * THREAD_ROWS}), channel, sum${i});`).join('\n  ')}
}
`;
}

/** Returns the gradient of the input, [batch, height, width, input channels]. */
export function runInputGradient(
  backend: WebGpuBackend,
  geometry: ConvolutionGeometry,
  { dy, filter, y }: InputGradientOperands,
): tf.TensorInfo {
  const { inShape, outShape, strides } = geometry;
  const [batch, height, width, channels] = inShape;
  const columns = convolutionTileColumnsFor(channels);
  // The first group is the largest.
  const pixels = batch * Math.ceil(height / strides[0]) * Math.ceil(width / strides[1]);
  const tiles = Math.ceil(pixels / TILE_ROWS) * Math.ceil(channels / columns);
  const components = loadWidthOf(outShape[3]);
  const program: GpuProgram = {
    key: `conv2dInputGradient${columns}_${components}_${y !== undefined}`,
    inputs: { dy: components, weights: components, ...(y && { y: components }) },
    uniforms: convolutionUniformsOf(geometry, { tiles }),
    workgroupSize: [THREAD_ROWS * (columns / 4), 1, 1],
    dispatch: spreadWorkgroups(backend, tiles * strides[0] * strides[1]),
    code: () => codeOf(columns, components, y !== undefined),
  };
  return runGpuProgram(backend, program, y ? [dy, filter, y] : [dy, filter], inShape);
}
