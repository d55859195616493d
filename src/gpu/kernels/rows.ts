/**
 * Parts of kernels that reduce each row of a matrix. On a GPU, several threads share a row. If rows
 * are short, a workgroup has several rows, so that few threads are idle. All sums are added in a
 * fixed order.
 */
import { FLAT_WORKGROUP_CODE, spreadWorkgroups, type BufferComponentCount, type GpuProgram } from '../program.ts';
import type { WebGpuBackend } from '../backend.ts';
import { computesInSoftware } from '../../util/gpuAdapter.ts';

/** A row with more elements has a whole workgroup of {@link LONG_LANES} threads. */
const LONG_ROW = 2048;
const LONG_LANES = 256;
/** Threads of a workgroup with shorter rows: two subgroups of most GPUs. */
const THREADS = 64;
/**
 * Longest row that one thread computes. One sum of many elements is less accurate than the sum of
 * several threads' sums.
 */
const LONGEST_ROW_OF_ONE_THREAD = 256;
/** Threads of a workgroup then: few, so that a matrix of few rows has a workgroup for each core. */
const SOFTWARE_THREADS = 16;

/** How threads are assigned to rows. */
export interface RowThreadLayout {
  /** Threads per row, a power of two. */
  readonly lanes: number;
  /** Threads per workgroup. */
  readonly threads: number;
}

/**
 * Chooses the layout for rows of `elements` elements: at least two per thread, if possible. On
 * adapters that compute in software, a thread has a whole short row, because barriers would take
 * longer than the row.
 */
export function chooseRowThreadLayout({ device }: WebGpuBackend, elements: number): RowThreadLayout {
  if (elements <= LONGEST_ROW_OF_ONE_THREAD && computesInSoftware(device))
    return { lanes: 1, threads: SOFTWARE_THREADS };
  if (elements > LONG_ROW) return { lanes: LONG_LANES, threads: LONG_LANES };
  let lanes = 4;
  while (lanes < THREADS && 2 * lanes < elements) lanes *= 2;
  return { lanes, threads: THREADS };
}

/**
 * The part of a {@link GpuProgram} that a layout determines. Its code needs {@link rowLayoutCode}.
 */
export function rowDispatch(
  backend: WebGpuBackend,
  rows: number,
  { lanes, threads }: RowThreadLayout,
): Pick<GpuProgram, 'workgroupSize' | 'dispatch'> {
  return { workgroupSize: [threads, 1, 1], dispatch: spreadWorkgroups(backend, Math.ceil((rows * lanes) / threads)) };
}

/**
 * WGSL functions of a layout: `rowIndex()` is the row of this thread, and `lane()` its index within
 * the row. Threads after the last row repeat the last row, because WGSL rejects barriers after a
 * return. The program needs the uniform `rows`.
 */
export function rowLayoutCode({ lanes, threads }: RowThreadLayout): string {
  return `
const THREADS = ${threads};
const LANES = ${lanes};
const ROWS_AT_ONCE = THREADS / LANES;
${FLAT_WORKGROUP_CODE}
fn lane() -> i32 { return i32(localIndex) % LANES; }
fn rowIndex() -> i32 {
  return min(flatWorkgroup() * ROWS_AT_ONCE + i32(localIndex) / LANES, uniforms.rows - 1);
}
`;
}

/**
 * WGSL function `name(value: type) -> type` that combines the values of all threads of a row. It
 * may contain barriers, so all threads must call it.
 *
 * @param combine WGSL expression of `a` and `b`; by default their sum, which has a fixed order.
 */
export function rowReductionCode(
  { lanes, threads }: RowThreadLayout,
  name: string,
  type: 'f32' | 'vec2<f32>' | 'vec4<f32>',
  combine = 'a + b',
): string {
  if (lanes === 1) return `fn ${name}(value: ${type}) -> ${type} { return value; }`;
  return `
var<workgroup> ${name}Values: array<${type}, ${threads}>;
fn ${name}(value: ${type}) -> ${type} {
  let thread = localIndex;
  ${name}Values[thread] = value;
  for (var half = ${lanes / 2}u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread % ${lanes}u < half) {
      let a = ${name}Values[thread];
      let b = ${name}Values[thread + half];
      ${name}Values[thread] = ${combine};
    }
  }
  workgroupBarrier();
  return ${name}Values[thread - thread % ${lanes}u];
}
`;
}

/**
 * Returns how many channels one load reads: 4 if rows have a multiple of 4 channels, otherwise 1.
 */
export function loadWidthOf(channels: number): BufferComponentCount {
  return channels % 4 === 0 ? 4 : 1;
}

/**
 * WGSL type `Element` with this many components, and functions: the sum and the maximum of the
 * components, one component, an element of a one-hot row, and whether a component is NaN or
 * +Infinity. The last function, `isLost`, reads bits, because WGSL need not keep NaN in `exp` or
 * `max`.
 */
export function elementCode(components: BufferComponentCount): string {
  return components === 4
    ? `
alias Element = vec4<f32>;
const COMPONENTS = 4;
fn fold(v: Element) -> f32 { return dot(v, Element(1.0)); }
fn largest(v: Element) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn component(v: Element, i: i32) -> f32 { return v[i]; }
fn isLost(v: Element) -> bool {
  let bits = bitcast<vec4<u32>>(v);
  return any(((bits >= vec4(0x7f800000u)) & (bits < vec4(0x80000000u))) | (bits > vec4(0xff800000u)));
}
fn oneHot(i: i32, label: i32) -> Element {
  return select(Element(), Element(1.0), 4 * vec4<i32>(i) + vec4<i32>(0, 1, 2, 3) == vec4<i32>(label));
}
`
    : `
alias Element = f32;
const COMPONENTS = 1;
fn fold(v: Element) -> f32 { return v; }
fn largest(v: Element) -> f32 { return v; }
fn component(v: Element, i: i32) -> f32 { return v; }
fn isLost(v: Element) -> bool {
  let bits = bitcast<u32>(v);
  return (bits >= 0x7f800000u && bits < 0x80000000u) || bits > 0xff800000u;
}
fn oneHot(i: i32, label: i32) -> Element { return select(0.0, 1.0, i == label); }
`;
}
