/** Operations on the elements of a matrix product before they are stored. */
import type { TensorInfo } from '@tensorflow/tfjs';
import type { BufferComponentCount, GpuProgram } from '../../program.ts';
import { loadWidthOf } from '../rows.ts';

/**
 * A matrix by which another matrix is multiplied, element by element. Both have the same number of
 * columns.
 */
export interface ElementwiseFactor {
  tensor: TensorInfo;
  /** Number of consecutive rows of the other matrix that share a row of this matrix. */
  sharedBy: number;
  /**
   * Whether only the sign of the factor counts: where it is positive, elements are kept; elsewhere,
   * they become 0.
   */
  isGate?: boolean;
}

/** `gelu`: the approximation by tanh, as in GPT-2; `geluErf`: without this approximation. */
export type MatMulActivation = 'relu' | 'gelu' | 'geluErf';

/** Functions of an element. */
export type ElementFunction = MatMulActivation | `${MatMulActivation}Derivative`;

/** `apply(product + bias) * factors + residual`. */
export interface MatMulEpilogue {
  /** One element for each column. */
  bias?: TensorInfo | undefined;
  apply?: ElementFunction | undefined;
  factors?: readonly Omit<ElementwiseFactor, 'isGate'>[];
  /** Is added last; has as many elements as the result. */
  residual?: TensorInfo | undefined;
}

/** WGSL for an epilogue, with the inputs and uniforms that it needs. */
export interface MatMulEpilogueCode {
  key: string;
  inputs: Record<string, BufferComponentCount>;
  tensors: TensorInfo[];
  uniforms: NonNullable<GpuProgram['uniforms']>;
  /** Defines `finish(value, row, column)` for 4 elements of a row. */
  code: () => string;
}

/** WGSL expression for 4 elements of `name` from index `at` on. */
export function fourElementsCode(name: string, at: string, components: BufferComponentCount): string {
  if (components === 4) return `${name}[(${at}) / 4]`;
  return `vec4<f32>(${[0, 1, 2, 3].map((i) => `${name}[${at} + ${i}]`).join(', ')})`;
}

/** WGSL expression for the elements `value` multiplied by those of the factor `name`. */
export function multipliedElementsCode(
  value: string,
  name: string,
  at: string,
  isGate: boolean,
  components: BufferComponentCount,
): string {
  const factor = fourElementsCode(name, at, components);
  return isGate ? `select(vec4<f32>(), ${value}, ${factor} > vec4<f32>())` : `${value} * ${factor}`;
}

// gelu(x) = x * sigmoid(2 u), which equals 0.5 x (1 + tanh(u)). The exponent is limited, because
// WGSL does not define the result of an overflow.
const SIGMOID = `
fn sigmoidOfGelu(x: vec4<f32>) -> vec4<f32> {
  return 1.0 / (1.0 + exp(min(-1.5957691216 * (x + 0.044715 * x * x * x), vec4<f32>(80.0))));
}
`;

// Half of 1 - erf(|x| / sqrt(2)), by formula 7.1.26 of Abramowitz and Stegun, "Handbook of
// Mathematical Functions", like tf.erf. Its largest error is 1.5e-7.
const NORMAL = `
fn normalTail(x: vec4<f32>) -> vec4<f32> {
  let a = abs(x) * 0.7071067812;
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let p = 0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)));
  return 0.5 * t * p * exp(-a * a);
}
fn normalDistribution(x: vec4<f32>) -> vec4<f32> {
  let tail = normalTail(x);
  return select(tail, 1.0 - tail, x > vec4<f32>());
}
`;
const FUNCTIONS: Record<ElementFunction, string> = {
  // The maximum of NaN and 0 may be 0, which would hide an overflow from the loss.
  relu: 'fn apply(x: vec4<f32>) -> vec4<f32> { return select(x, vec4<f32>(), x < vec4<f32>()); }',
  reluDerivative:
    'fn apply(x: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(), vec4<f32>(1.0), x > vec4<f32>()); }',
  gelu: `${SIGMOID}
fn apply(x: vec4<f32>) -> vec4<f32> { return x * sigmoidOfGelu(x); }`,
  geluDerivative: `${SIGMOID}
fn apply(x: vec4<f32>) -> vec4<f32> {
  let s = sigmoidOfGelu(x);
  return s + x * s * (1.0 - s) * (1.5957691216 + 0.2140644488 * x * x);
}`,
  geluErf: `${NORMAL}
fn apply(x: vec4<f32>) -> vec4<f32> { return x * normalDistribution(x); }`,
  geluErfDerivative: `${NORMAL}
fn apply(x: vec4<f32>) -> vec4<f32> {
  return normalDistribution(x) + x * 0.3989422804 * exp(-0.5 * x * x);
}`,
};

/** @param columns number of columns of the result. The code reads it from the uniform `columns`. */
export function matMulEpilogueCode(
  { bias, apply, factors = [], residual }: MatMulEpilogue,
  columns: number,
): MatMulEpilogueCode {
  const components = loadWidthOf(columns);
  const inputs: MatMulEpilogueCode['inputs'] = {};
  const tensors: TensorInfo[] = [];
  const uniforms: Record<string, { type: 'i32'; value: number }> = {};
  const lines: string[] = [];
  const add = (name: string, tensor: TensorInfo, line: string): void => {
    inputs[name] = components;
    tensors.push(tensor);
    lines.push(line);
  };
  if (bias) add('bias', bias, `v += ${fourElementsCode('bias', 'column', components)};`);
  if (apply) lines.push('v = apply(v);');
  for (const [i, { tensor, sharedBy }] of factors.entries()) {
    const name = `factor${i}`;
    uniforms[`${name}SharedBy`] = { type: 'i32', value: sharedBy };
    const at = `row / uniforms.${name}SharedBy * uniforms.columns + column`;
    add(name, tensor, `v *= ${fourElementsCode(name, at, components)};`);
  }
  if (residual)
    add('residual', residual, `v += ${fourElementsCode('residual', 'row * uniforms.columns + column', components)};`);
  return {
    key: [components, bias ? 'bias' : '', apply ?? '', factors.length, residual ? 'residual' : ''].join('-'),
    inputs,
    tensors,
    uniforms,
    code: () => `${apply ? FUNCTIONS[apply] : ''}
fn finish(value: vec4<f32>, row: i32, column: i32) -> vec4<f32> {
  var v = value;
  ${lines.join('\n  ')}
  return v;
}
fn store(value: vec4<f32>, row: i32, column: i32) {
  let v = finish(value, row, column);
  let at = row * uniforms.columns + column;
  ${components === 4 ? 'result[at / 4] = v;' : [0, 1, 2, 3].map((i) => `if (column + ${i} < uniforms.columns) { result[at + ${i}] = v[${i}]; }`).join('\n  ')}
}
`,
  };
}
