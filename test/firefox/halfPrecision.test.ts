/** Mixed precision. SwiftShader has no float16, but Firefox on lavapipe has. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { buildPage } from '../../tools/buildPage.ts';
import { describeInFirefox, Firefox } from './firefox.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 90_000 });

const HTML = 'test/firefox/halfPrecision.html';

describeInFirefox('mixed precision in Firefox', () => {
  let firefox: Firefox;
  let server: SignalingServer;
  let remove: () => Promise<void>;
  beforeAll(async () => {
    const page = await buildPage(HTML);
    remove = page.remove;
    server = await startSignaling({ dist: page.dist });
    firefox = await Firefox.start();
  });
  afterAll(async () => {
    await firefox.close();
    await server.close();
    await remove();
  });

  test('rounds factors of products and gradients, notices overflows, and trains like full precision', async () => {
    const { page } = await firefox.open(`${server.url}/${HTML}`);
    await page.waitForFunction('"measureHalfPrecision" in globalThis');
    const measured = await page.evaluate(() => measureHalfPrecision());
    const { isSupported, differences, largest, overflows, losses } = measured;
    expect(isSupported).toBe(true);
    // The gradient of a bias has no product, but the derivative of gelu reads the layer's product.
    expect(differences.matMul).toHaveLength(3);
    expect(differences.linear).toHaveLength(4);
    for (const difference of [...differences.matMul, ...differences.linear]) {
      expect(difference).toBeGreaterThan(1e-6);
      expect(difference).toBeLessThan(1e-2);
    }
    expect(largest).toBe(65504);
    expect(overflows.map((value) => Number.isFinite(value))).toEqual([false, false, false, false, false, false]);
    expect(losses.full.at(-1)).toBeLessThan(0.8 * losses.full[0]!);
    expect(losses.mixed).not.toEqual(losses.full);
    for (const [step, loss] of losses.mixed.entries()) {
      expect(Math.abs(loss / losses.full[step]! - 1)).toBeLessThan(0.01);
    }
  });
});
