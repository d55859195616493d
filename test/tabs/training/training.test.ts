/** Training runs in real tabs: Chromium, WebRTC, WebGPU in software. */
import { describe, expect, test, vi } from 'vitest';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { type World, worldOfFile } from '../harness/world.ts';

// Long enough for a run of four tabs on two slow cores. Each wait in a test has a shorter deadline
// and a better message.
vi.setConfig({ testTimeout: 150_000 });

const world = await worldOfFile({}, { backend: 'webgpu' });

/**
 * Trains in `n` tabs and returns every tab's result. Checks that no tab violates the
 * Content-Security-Policy.
 */
async function train(n: number, fields: Parameters<World['createRoom']>[0]): Promise<RunResult[]> {
  const room = world.createRoom(fields, n);
  const tabs = await Promise.all(Array.from({ length: n }, (_, i) => world.join(room, `tab-${i}`)));
  const results = await Promise.all(tabs.map(async (tab) => (await tab.event('finished')).result));
  expect(tabs.flatMap(({ violations }) => violations)).toEqual([]);
  return results;
}

describe('training in real tabs', () => {
  test('three tabs with WebGPU and WebRTC have states equal bit for bit, and send as many bytes as theory predicts', async () => {
    const results = await train(3, { maxSteps: 12, hashEvery: 4 });
    for (const result of results) {
      expect(result).toMatchObject({
        worldSize: 3,
        backend: 'webgpu',
        transport: { webrtc: 3, server: 0, memory: 0 },
        steps: 12,
      });
      expect(result.stateHash).toHaveLength(3);
      expect(new Set(result.stateHash)).toEqual(new Set([results[0]!.stateHash[0]]));
      expect(result.losses).toEqual(results[0]!.losses);
      for (const bytes of result.bytesSentPerRank) {
        const ratio = bytes / ((4 / 3) * result.gradientBytes * result.steps);
        expect(ratio).toBeGreaterThanOrEqual(1);
        expect(ratio).toBeLessThan(1.01);
      }
    }
    const { losses } = results[0]!;
    expect(losses.at(-1)).toBeLessThan(losses[0]! * 0.8);
  });

  test('four ranks with batch 32 have the same losses as one rank with batch 128', async () => {
    const [one] = await train(1, { batchSize: 128, maxSteps: 6 });
    const [four] = await train(4, { batchSize: 32, maxSteps: 6 });
    for (const [step, loss] of one!.losses.entries()) {
      expect(Math.abs(four!.losses[step]! - loss) / loss).toBeLessThan(1e-4);
    }
  });

  test('an asynchronous parameter server opens links to ranks that are not its neighbours', async () => {
    const results = await train(4, { strategy: 'async-parameter-server', syncEvery: 3, batchSize: 8, maxSteps: 4 });
    for (const { stateHash, losses } of results) {
      expect(new Set(stateHash).size).toBe(1);
      expect(losses).toEqual(results[0]!.losses);
    }
  });

  test('a tab without WebGPU reports its backend, and ends with the same bits as a tab with WebGPU', async () => {
    const room = world.createRoom({ maxSteps: 4 }, 2);
    const withGpu = await world.join(room, 'gpu');
    const without = await world.join(room, 'no-gpu', {
      bypassCSP: true,
      // Workers inherit no globals from the page, so WebGPU is removed inside the engine's worker.
      before: `const Original = Worker;
        window.Worker = class extends Original {
          constructor(url, options) {
            const source = 'delete WorkerNavigator.prototype.gpu; import ' + JSON.stringify(String(url)) + ';';
            super(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })), options);
          }
        };`,
    });
    const { device, note } = await without.event('device');
    expect(device.backend).not.toBe('webgpu');
    expect(note).toMatch(/^Training on .* slower.*this browser does not support WebGPU/);
    const [a, b] = await Promise.all([withGpu.event('finished'), without.event('finished')]);
    expect(a.result.backend).toBe('webgpu');
    expect(b.result.stateHash).toEqual(a.result.stateHash);
    // For an untrained model all ten digits are equally likely, so its loss is ln 10.
    expect(a.result.losses[0]).toBeCloseTo(Math.log(10), 0);
    expect(new Set(a.result.stateHash).size).toBe(1);
  });
});
