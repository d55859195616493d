/** Runs kernels as on a GPU and as on an adapter that computes in software. */
import { webgpuBackend } from '../../../src/gpu/backend.ts';
import { expectEqualBits, expectEqualsCpu, type Input, type Op } from './compare.ts';

/** Descriptions of adapters. */
const ADAPTERS = { hardware: 'A GPU', software: 'SwiftShader' };
export type AdapterKind = keyof typeof ADAPTERS;

/** Runs `compute` with the kernels that the engine uses on an adapter of this kind. */
export async function onAdapter<T>(kind: AdapterKind, compute: () => Promise<T>): Promise<T> {
  const { device } = webgpuBackend()!;
  const own = Object.getOwnPropertyDescriptor(device, 'adapterInfo');
  Object.defineProperty(device, 'adapterInfo', { value: { description: ADAPTERS[kind] }, configurable: true });
  try {
    return await compute();
  } finally {
    if (own) Object.defineProperty(device, 'adapterInfo', own);
    else Reflect.deleteProperty(device, 'adapterInfo');
  }
}

/** Checks that an op equals the CPU backend's, and has the same bits on both kinds of adapters. */
export async function expectEqualOnAdapters(op: Op, inputs: readonly Input[]): Promise<void> {
  await onAdapter('hardware', () => expectEqualsCpu(op, inputs));
  await expectEqualBits(op, inputs, 2, (run, compute) => onAdapter(run === 0 ? 'hardware' : 'software', compute));
}

/** Runs a check on both kinds of adapters, whose kernels may differ in rounding. */
export async function onEachAdapter(check: () => Promise<void>): Promise<void> {
  for (const kind of ['hardware', 'software'] as const) await onAdapter(kind, check);
}
