/**
 * Firefox and Chromium in one run. Firefox computes WebGPU with wgpu on lavapipe, Chromium with
 * Dawn on SwiftShader.
 */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { worldOfFile } from '../tabs/world.ts';
import { describeInFirefox, Firefox } from './firefox.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 90_000 });

describeInFirefox('a Firefox tab with WebGPU', async () => {
  const world = await worldOfFile();
  let firefox: Firefox;
  beforeAll(async () => {
    firefox = await Firefox.start();
  });
  afterAll(() => firefox.close());
  const url = (hash: string): string => `${world.server.url}/#${hash}`;

  test('trains with a Chromium tab, and 60 steps later their states are equal bit for bit', async () => {
    const room = world.createRoom({ maxSteps: 60, batchSize: 8, hashEvery: 20 }, 2);
    const [fox, chromium] = await Promise.all([
      firefox.open(url(`${room}?name=fox&auto`)),
      world.join(room, 'chromium'),
    ]);
    const [a, b] = await Promise.all([fox.event('finished'), chromium.event('finished')]);
    for (const { result } of [a, b]) {
      expect(result).toMatchObject({ worldSize: 2, backend: 'webgpu', transport: 'webrtc', steps: 60 });
      expect(new Set(result.stateHash).size).toBe(1);
      expect(result.stateHash).toEqual(a.result.stateHash);
      expect(result.losses).toEqual(a.result.losses);
    }
    const { losses } = a.result;
    expect(losses.at(-1)).toBeLessThan(losses[0]! * 0.8);
  });
});
