/** Runs a WGSL program on tensors. TensorFlow.js compiles it, and caches its pipeline. */
import type { TensorInfo } from '@tensorflow/tfjs';
import type { WebGPUProgram } from '@tensorflow/tfjs-backend-webgpu';
import { elementCountOf } from '../util/shape.ts';
import type { WebGpuBackend } from './backend.ts';

/** Number of components of a buffer element: 1 for `f32`, 2 for `vec2<f32>`, 4 for `vec4<f32>`. */
export type BufferComponentCount = 1 | 2 | 4;

export interface GpuProgram {
  /** Identifies the code. Programs with equal keys and inputs of equal rank share a pipeline. */
  readonly key: string;
  /** WGSL names of the inputs, each with its number of components. */
  readonly inputs: Readonly<Record<string, BufferComponentCount>>;
  /** Components of the output buffer `result`; 1 by default. */
  readonly outputComponents?: BufferComponentCount;
  /** Members of `uniforms`, each with its type and value. */
  readonly uniforms?: Readonly<Record<string, { readonly type: 'i32' | 'f32'; readonly value: number }>>;
  readonly workgroupSize: readonly [number, number, number];
  /** Number of workgroups. */
  readonly dispatch: readonly [number, number, number];
  /**
   * Returns WGSL code with a function `main()`; called only to compile it. The code may use the
   * inputs, `result`, `uniforms`, the variables `localId`, `globalId`, `workgroupId` and
   * `numWorkgroups` (all vec3<u32>), and `localIndex` (u32).
   */
  readonly code: () => string;
}

/**
 * Runs `program` on `inputs`, which have the order of the program's declared inputs. The program
 * reads and writes flat arrays; it knows shapes only from its uniforms.
 *
 * @param output float32 tensor of `shape` that the program writes to. With it, several programs can
 *   write parts of one tensor.
 * @returns `output` if it is given, otherwise a new tensor of `shape`, float32. The caller owns it.
 */
export function runGpuProgram(
  backend: WebGpuBackend,
  program: GpuProgram,
  inputs: readonly TensorInfo[],
  shape: readonly number[],
  output?: TensorInfo,
): TensorInfo {
  const uniforms = Object.entries(program.uniforms ?? {});
  const webgpuProgram: WebGPUProgram = {
    shaderKey: program.key,
    variableNames: Object.keys(program.inputs),
    variableComponents: Object.values(program.inputs),
    outputShape: column(shape),
    outputComponent: program.outputComponents ?? 1,
    uniforms: uniforms.map(([name, { type }]) => `${name} : ${type}, `).join(''),
    workgroupSize: [...program.workgroupSize],
    dispatch: [...program.dispatch],
    // With a second dimension, TensorFlow.js calls `main()` without an index.
    dispatchLayout: { x: [0], y: [1] },
    getUserCode: program.code,
  };
  const values = uniforms.map(([, { type, value }]) => ({ type: type === 'i32' ? 'int32' : 'float32', data: [value] }));
  const floats = inputs.map((input) => withFloats(backend, input));
  const result = backend.runWebGPUProgram(
    webgpuProgram,
    floats.map(flat),
    'float32',
    values,
    output && { ...output, shape: column(output.shape) },
  );
  for (const [i, { dataId }] of floats.entries()) if (dataId !== inputs[i]!.dataId) backend.disposeData(dataId);
  return { ...result, shape: [...shape] };
}

/**
 * Returns `input` with a buffer whose elements have the dtype of `input`. `tf.cast` from int32 to
 * float32 copies nothing on WebGPU: the buffer of the float32 tensor still has integers.
 */
function withFloats(backend: WebGpuBackend, input: TensorInfo): TensorInfo {
  if (input.dtype !== 'float32' || backend.tensorMap.get(input.dataId).dtype === 'float32') return input;
  const size = elementCountOf(input.shape);
  const program: GpuProgram = {
    key: 'toFloats',
    inputs: { integers: 1 },
    uniforms: { size: { type: 'i32', value: size } },
    workgroupSize: [64, 1, 1],
    dispatch: spreadWorkgroups(backend, Math.ceil(size / 64)),
    code: () => `
${FLAT_WORKGROUP_CODE}
fn main() {
  let at = flatWorkgroup() * 64 + i32(localIndex);
  if (at < uniforms.size) { result[at] = f32(integers[at]); }
}
`,
  };
  return runGpuProgram(backend, program, [{ ...input, dtype: 'int32' }], input.shape);
}

/**
 * Returns the shape of the output. TensorFlow.js uses different pipelines for inputs that have the
 * output's shape and for inputs that do not. No flat input has the shape that this function
 * returns, so tensors of any size share a pipeline.
 */
function column(shape: readonly number[]): number[] {
  return [elementCountOf(shape), 1];
}

/** Flat shapes let tensors of any rank share a pipeline. */
function flat({ dataId, shape, dtype }: TensorInfo): TensorInfo {
  return { dataId, shape: [elementCountOf(shape)], dtype };
}

/**
 * Returns numbers of workgroups in x and y whose product is at least `count`; see
 * {@link FLAT_WORKGROUP_CODE}.
 */
export function spreadWorkgroups(backend: WebGpuBackend, count: number): [number, number, number] {
  const most = backend.device.limits.maxComputeWorkgroupsPerDimension;
  if (count <= most) return [count, 1, 1];
  const rows = Math.ceil(count / most);
  return [Math.ceil(count / rows), rows, 1];
}

/**
 * WGSL function that returns the index of this workgroup in a dispatch by {@link spreadWorkgroups}.
 * Such a dispatch may have more workgroups than are needed.
 */
export const FLAT_WORKGROUP_CODE = `
fn flatWorkgroup() -> i32 { return i32(workgroupId.y * numWorkgroups.x + workgroupId.x); }
`;
