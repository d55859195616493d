/** Runs kernels as on a GPU and as on an adapter that computes in software. */
import { afterAll, beforeAll, expect } from 'vitest';
import { webgpuBackend } from '../../../src/gpu/backend.ts';
import { bitsOf, valueAndGradients, type Input, type Op } from './compare.ts';

/** Descriptions of adapters. */
const ADAPTERS = { hardware: 'A GPU', software: 'SwiftShader' };
type AdapterKind = keyof typeof ADAPTERS;
export const ADAPTER_KINDS = Object.keys(ADAPTERS) as AdapterKind[];

/** Lets the device name an adapter of this kind. Returns a function that restores its own name. */
function pretend(kind: AdapterKind): () => void {
  const { device } = webgpuBackend()!;
  const own = Object.getOwnPropertyDescriptor(device, 'adapterInfo');
  Object.defineProperty(device, 'adapterInfo', { value: { description: ADAPTERS[kind] }, configurable: true });
  return () => {
    if (own) Object.defineProperty(device, 'adapterInfo', own);
    else Reflect.deleteProperty(device, 'adapterInfo');
  };
}

/** Runs the tests of a `describe` block with the kernels for adapters of this kind. */
export function useAdapter(kind: AdapterKind): void {
  let restore: (() => void) | null = null;
  beforeAll(() => {
    restore = pretend(kind);
  });
  afterAll(() => restore?.());
}

/** Checks that an op's result and gradients have the same bits on both kinds of adapters. */
export async function expectSameBitsOnAdapters(op: Op, inputs: readonly Input[]): Promise<void> {
  const bits: unknown[] = [];
  for (const kind of ADAPTER_KINDS) {
    const restore = pretend(kind);
    try {
      bits.push((await valueAndGradients(op, inputs, 'webgpu')).map(bitsOf));
    } finally {
      restore();
    }
  }
  expect(bits[1]).toEqual(bits[0]);
}
