/**
 * Convolution as a matrix product of patches [positions, patch size] and filter [patch size, output
 * channels], with bias and activation. Patches are read in place (implicit GEMM; Chetlur et al.,
 * "cuDNN: Efficient Primitives for Deep Learning", 2014).
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

export type ConvolutionActivation = 'linear' | 'relu';

/** Positions of a tile. A thread computes 4 positions of 4 channels. */
const TILE_ROWS = 64;
const THREAD_ROWS = TILE_ROWS / 4;
/** Elements of patches in workgroup memory. */
const TILE_INNER = 16;

export interface ConvolutionOperands {
  x: tf.TensorInfo;
  filter: tf.TensorInfo;
  /** [output channels] */
  bias: tf.TensorInfo | undefined;
  activation: ConvolutionActivation;
}

/**
 * Patches are in workgroup memory as [element / 4][position], so that a thread loads a vec4 from
 * `x` and stores it as a vec4, and that threads of a warp read consecutive vec4. For the second
 * reason, a thread's positions are THREAD_ROWS apart.
 */
function codeOf(
  columns: number,
  x: BufferComponentCount,
  weights: BufferComponentCount,
  hasBias: boolean,
  activation: ConvolutionActivation,
): string {
  const vectors = columns / 4;
  const threads = THREAD_ROWS * vectors;
  const perThread = [0, 1, 2, 3];
  const bias = hasBias ? 'readBias(0, channel)' : 'vec4<f32>(0.0)';
  return `
var<workgroup> origins: array<vec3<i32>, ${TILE_ROWS}>;
var<workgroup> patchTile: array<array<vec4<f32>, ${TILE_ROWS}>, ${TILE_INNER / 4}>;
var<workgroup> weightTile: array<array<vec4<f32>, ${vectors}>, ${TILE_INNER}>;
${FLAT_WORKGROUP_CODE}
${imagePatchCode(x)}
${channelReaderCode('readWeights', 'weights', weights)}
${hasBias ? channelReaderCode('readBias', 'bias', weights) : ''}
fn write(position: i32, channel: i32, sum: vec4<f32>) {
  if (position >= uniforms.positions || channel >= uniforms.outChannels) { return; }
  ${activation === 'relu' ? 'let value = select(sum, vec4<f32>(0.0), sum < vec4<f32>(0.0));' : 'let value = sum;'}
  let at = position * uniforms.outChannels + channel;
  ${
    weights === 4
      ? 'result[at / 4] = value;'
      : 'for (var i = 0; i < min(4, uniforms.outChannels - channel); i++) { result[at + i] = value[i]; }'
  }
}

fn main() {
  let thread = i32(localIndex);
  let tiles = (uniforms.outChannels + ${columns - 1}) / ${columns};
  let tile = flatWorkgroup();
  let firstPosition = tile / tiles * ${TILE_ROWS};
  let firstChannel = tile % tiles * ${columns};
  for (var i = thread; i < ${TILE_ROWS}; i += ${threads}) { origins[i] = originOf(firstPosition + i); }
  ${perThread.map((i) => `var sum${i} = vec4<f32>(0.0);`).join(' ')}
  for (var k = 0; k < uniforms.patchSize; k += ${TILE_INNER}) {
    workgroupBarrier();
    // A thread reads the same elements of several patches.
    let index = patchIndex(k + thread % 4 * 4);
    for (var i = thread / 4; i < ${TILE_ROWS}; i += ${threads / 4}) { patchTile[thread % 4][i] = readPatch(origins[i], index); }
    for (var i = thread; i < ${TILE_INNER * vectors}; i += ${threads}) {
      var value = vec4<f32>(0.0);
      if (k + i / ${vectors} < uniforms.patchSize) {
        value = readWeights(k + i / ${vectors}, firstChannel + i % ${vectors} * 4);
      }
      weightTile[i / ${vectors}][i % ${vectors}] = value;
    }
    workgroupBarrier();
    let column = thread % ${vectors};
    let row = thread / ${vectors};
    for (var quarter = 0; quarter < ${TILE_INNER / 4}; quarter++) {
      ${perThread.map((i) => `let weights${i} = weightTile[quarter * 4 + ${i}][column];`).join('\n      ')}
      ${perThread
        .map(
          (i) => `let patch${i} = patchTile[quarter][row + ${i * THREAD_ROWS}];
      sum${i} += patch${i}.x * weights0 + patch${i}.y * weights1 + patch${i}.z * weights2 + patch${i}.w * weights3;`,
        )
        .join('\n      ')}
    }
  }
  let channel = firstChannel + thread % ${vectors} * 4;
  let position = firstPosition + thread / ${vectors};
  let biasOfChannels = ${bias};
  ${perThread.map((i) => `write(position + ${i * THREAD_ROWS}, channel, sum${i} + biasOfChannels);`).join('\n  ')}
}
`;
}

/** Returns the activations, [batch, height, width, output channels]. */
export function runConvolution(
  backend: WebGpuBackend,
  geometry: ConvolutionGeometry,
  { x, filter, bias, activation }: ConvolutionOperands,
): tf.TensorInfo {
  const { inShape, outShape } = geometry;
  const [, , , channels] = outShape;
  const columns = convolutionTileColumnsFor(channels);
  const xComponents = loadWidthOf(inShape[3]);
  const components = loadWidthOf(channels);
  const positions = convolutionPatchCountOf(geometry);
  const program: GpuProgram = {
    key: `conv2d${columns}_${xComponents}_${components}_${bias !== undefined}_${activation}`,
    inputs: { x: xComponents, weights: components, ...(bias && { bias: components }) },
    outputComponents: components,
    uniforms: convolutionUniformsOf(geometry, { positions, patchSize: convolutionPatchSizeOf(geometry) }),
    workgroupSize: [(THREAD_ROWS * columns) / 4, 1, 1],
    dispatch: spreadWorkgroups(backend, Math.ceil(positions / TILE_ROWS) * Math.ceil(channels / columns)),
    code: () => codeOf(columns, xComponents, components, bias !== undefined, activation),
  };
  return runGpuProgram(backend, program, bias ? [x, filter, bias] : [x, filter], outShape);
}
