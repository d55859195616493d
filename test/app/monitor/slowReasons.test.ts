/** Why a rank may be slow, from facts about its machine. */
import { expect, test } from 'vitest';
import { looksLikeLowPowerMode, findSlowTabReasons, type MachineFacts } from '../../../src/app/monitor/slowReasons.ts';

/** A machine without any reason to be slow. */
const FAST: MachineFacts = {
  device: { backend: 'webgpu', adapter: 'NVIDIA GeForce RTX 4070' },
  isSecure: true,
  hasWebGpu: true,
  isHidden: false,
  isOnBattery: false,
  savesFrames: false,
};
const WASM = { backend: 'wasm', adapter: 'CPU (WebAssembly)' } as const;

const frames = (ms: (i: number) => number): number[] => Array.from({ length: 30 }, (_, i) => ms(i));

test.each<[Partial<MachineFacts>, string[]]>([
  [{}, []],
  [{ device: null }, []],
  [{ device: { backend: 'webgpu', adapter: 'google swiftshader' } }, ['software']],
  [{ device: { backend: 'webgpu', adapter: 'llvmpipe (LLVM 15.0.6, 256 bits)' } }, ['software']],
  [{ device: WASM, isSecure: false, hasWebGpu: false }, ['insecure']],
  [{ device: WASM, hasWebGpu: false }, ['browser']],
  [{ device: { backend: 'webgl', adapter: 'WebGL' } }, ['adapter']],
  [{ isHidden: true }, ['hidden']],
  [{ isOnBattery: true }, ['battery']],
  [{ isOnBattery: true, savesFrames: true }, ['battery']],
  [{ isOnBattery: null, savesFrames: true }, ['saver']],
  // The machine is plugged in, so few frames have another cause.
  [{ savesFrames: true }, []],
  [{ device: WASM, isHidden: true, isOnBattery: true }, ['adapter', 'hidden', 'battery']],
])('a machine with %o is slow for the reasons %o', (facts, reasons) => {
  expect(findSlowTabReasons({ ...FAST, ...facts })).toEqual(reasons);
});

test('looksLikeLowPowerMode is true for 30 regular frames per second, and false for the irregular frames of a busy machine', () => {
  expect(looksLikeLowPowerMode([])).toBe(false);
  expect(looksLikeLowPowerMode(frames(() => 16.7))).toBe(false);
  expect(looksLikeLowPowerMode(frames((i) => (i % 2 === 0 ? 33.4 : 33.2)))).toBe(true);
  expect(looksLikeLowPowerMode(frames((i) => (i % 10 === 0 ? 50 : 33.3)))).toBe(true);
  expect(looksLikeLowPowerMode(frames((i) => 16.7 * (1 + (i % 4))))).toBe(false);
  expect(looksLikeLowPowerMode(frames(() => 200))).toBe(false);
});
