/**
 * Gradients of the filter and of the bias of a convolution. The gradient of the filter is the
 * matrix product of the transposed patches [patch size, positions] and the gradient dy [positions,
 * output channels]. It has few elements, and each is a long sum. So positions are split among
 * workgroups (split-K), and a second kernel adds the sums of the splits in a fixed order.
 * TensorFlow.js computes each element in one thread.
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
  imagePatchCode,
  convolutionPatchSizeOf,
  convolutionPatchCountOf,
  convolutionTileColumnsFor,
  convolutionUniformsOf,
  type ConvolutionGeometry,
} from './geometry.ts';

/** Positions in workgroup memory. */
const TILE_INNER = 16;
/** Workgroups that keep a large GPU busy: two for each of 128 processors. */
const WORKGROUPS = 256;
/** With fewer positions in a split, writing its sums takes as long as computing them. */
const LEAST_POSITIONS = 128;
/** Largest number of splits that the kernel columnSum adds in one dispatch. */
const MOST_SPLITS = 128;

export interface FilterGradientOperands {
  x: tf.TensorInfo;
  dy: tf.TensorInfo;
  /** The results of ReLU, if this is the activation: dy counts only where they are positive. */
  y: tf.TensorInfo | undefined;
  /** Whether the result includes the gradient of the bias, which is the sum of dy. */
  hasBias: boolean;
}

/** A thread sums 4 elements of the patch times 4 channels. */
function codeOf(
  rows: number,
  columns: number,
  x: BufferComponentCount,
  dy: BufferComponentCount,
  isMasked: boolean,
  hasBias: boolean,
): string {
  const [rowVectors, columnVectors] = [rows / 4, columns / 4];
  const perThread = [0, 1, 2, 3];
  return `
var<workgroup> origins: array<vec3<i32>, ${TILE_INNER}>;
var<workgroup> patchTile: array<array<vec4<f32>, ${rowVectors}>, ${TILE_INNER}>;
var<workgroup> gradientTile: array<array<vec4<f32>, ${columnVectors}>, ${TILE_INNER}>;
${FLAT_WORKGROUP_CODE}
${imagePatchCode(x)}
${channelReaderCode('gradient', 'dy', dy, isMasked ? 'y' : null)}
fn write(split: i32, row: i32, channel: i32, sum: vec4<f32>) {
  let at = split * uniforms.sums + row * uniforms.outChannels + channel;
  for (var i = 0; i < min(4, uniforms.outChannels - channel); i++) { result[at + i] = sum[i]; }
}

fn main() {
  let thread = i32(localIndex);
  let columnTiles = (uniforms.outChannels + ${columns - 1}) / ${columns};
  let tiles = (uniforms.patchSize + ${rows - 1}) / ${rows} * columnTiles;
  let tile = flatWorkgroup() % tiles;
  let split = flatWorkgroup() / tiles;
  let row = tile / columnTiles * ${rows} + thread % ${rowVectors} * 4;
  let channel = tile % columnTiles * ${columns} + thread % ${columnVectors} * 4;
  let first = split * uniforms.positionsPerSplit;
  let index = patchIndex(row);
  if (thread < ${TILE_INNER}) { origins[thread] = originOf(first + thread); }
  ${perThread.map((i) => `var sum${i} = vec4<f32>(0.0);`).join(' ')}
  var bias = vec4<f32>(0.0);
  for (var k = 0; k < uniforms.positionsPerSplit; k += ${TILE_INNER}) {
    workgroupBarrier();
    for (var i = thread / ${rowVectors}; i < ${TILE_INNER}; i += ${columnVectors}) {
      patchTile[i][thread % ${rowVectors}] = readPatch(origins[i], index);
    }
    for (var i = thread / ${columnVectors}; i < ${TILE_INNER}; i += ${rowVectors}) {
      var value = vec4<f32>(0.0);
      if (first + k + i < uniforms.positions) { value = gradient(first + k + i, channel); }
      gradientTile[i][thread % ${columnVectors}] = value;
    }
    workgroupBarrier();
    if (thread < ${TILE_INNER}) { origins[thread] = originOf(first + k + ${TILE_INNER} + thread); }
    for (var i = 0; i < ${TILE_INNER}; i++) {
      let p = patchTile[i][thread / ${columnVectors}];
      let g = gradientTile[i][thread % ${columnVectors}];
      ${perThread.map((i) => `sum${i} += p[${i}] * g;`).join(' ')}
      ${hasBias ? 'bias += g;' : ''}
    }
  }
  if (split >= uniforms.splits || channel >= uniforms.outChannels) { return; }
  let firstRow = tile / columnTiles * ${rows} + thread / ${columnVectors} * 4;
  ${perThread.map((i) => `if (firstRow + ${i} < uniforms.patchSize) { write(split, firstRow + ${i}, channel, sum${i}); }`).join('\n  ')}
  ${hasBias ? 'if (firstRow == 0) { write(split, uniforms.patchSize, channel, bias); }' : ''}
}
`;
}

/**
 * Returns sums over the positions of each split, [splits, sums]. The gradient of the filter is the
 * sum over splits. With `hasBias`, the last columns are those of the bias.
 */
export function filterGradientSums(
  backend: WebGpuBackend,
  geometry: ConvolutionGeometry,
  { x, dy, y, hasBias }: FilterGradientOperands,
): tf.TensorInfo {
  const { inShape, outShape } = geometry;
  const [, , , channels] = outShape;
  const patchSize = convolutionPatchSizeOf(geometry);
  const positions = convolutionPatchCountOf(geometry);
  const [rows, columns] = [patchSize <= 32 ? 32 : 64, convolutionTileColumnsFor(channels)];
  const tiles = Math.ceil(patchSize / rows) * Math.ceil(channels / columns);
  const wanted = Math.min(Math.ceil(WORKGROUPS / tiles), Math.ceil(positions / LEAST_POSITIONS), MOST_SPLITS);
  const positionsPerSplit = Math.ceil(positions / wanted / TILE_INNER) * TILE_INNER;
  const splits = Math.ceil(positions / positionsPerSplit);
  const sums = (patchSize + (hasBias ? 1 : 0)) * channels;
  const [xComponents, components] = [loadWidthOf(inShape[3]), loadWidthOf(channels)];
  const program: GpuProgram = {
    key: `conv2dFilterGradient${rows}_${columns}_${xComponents}_${components}_${y !== undefined}_${hasBias}`,
    inputs: { x: xComponents, dy: components, ...(y && { y: components }) },
    uniforms: convolutionUniformsOf(geometry, { positions, patchSize, positionsPerSplit, splits, sums }),
    workgroupSize: [(rows * columns) / 16, 1, 1],
    dispatch: spreadWorkgroups(backend, splits * tiles),
    code: () => codeOf(rows, columns, xComponents, components, y !== undefined, hasBias),
  };
  return runGpuProgram(backend, program, y ? [x, dy, y] : [x, dy], [splits, sums]);
}
