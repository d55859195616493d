/**
 * Slows the computation of a browser's tabs. Chromium's own throttle
 * (`Emulation.setCPUThrottlingRate`) slows a page's main thread, but tabs compute in a worker. So
 * the worker sleeps after calls of WebAssembly, in proportion to their duration. Nothing else is
 * slowed, such as the exchange of gradients, and a sleeping worker leaves its core to other tabs.
 */
import type { Browser } from '../../launcher/browser/browser.ts';

/**
 * Returns a script for a worker that has not opened its device yet. The worker sleeps at least 2 ms
 * at a time.
 */
const scriptFor = (slowness: number): string => `(() => {
  const cell = new Int32Array(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer);
  let debt = 0;
  const slowed = (fn) => (...args) => {
    const startedAt = performance.now();
    try {
      return fn(...args);
    } finally {
      const endedAt = performance.now();
      debt += (endedAt - startedAt) * (${slowness} - 1);
      if (debt > 2) {
        Atomics.wait(cell, 0, 0, debt);
        debt -= performance.now() - endedAt;
      }
    }
  };
  const exportsOf = (instance) =>
    Object.entries(instance.exports).map(([name, value]) => [name, typeof value === 'function' ? slowed(value) : value]);
  for (const name of ['instantiate', 'instantiateStreaming']) {
    const original = WebAssembly[name].bind(WebAssembly);
    WebAssembly[name] = async (...given) => {
      const result = await original(...given);
      return { ...result, instance: { exports: Object.fromEntries(exportsOf(result.instance)) } };
    };
  }
})()`;

/**
 * Slows the tabs that are opened in the browser from now on.
 *
 * @param slowness how many times as long a call of WebAssembly takes.
 */
export function slowTabs(browser: Browser, slowness: number): void {
  browser.on('context', (context) => {
    context.on('page', (page) => {
      page.on('worker', (worker) => {
        // The evaluation of a worker that has ended rejects.
        worker.evaluate(scriptFor(slowness)).catch(() => {});
      });
    });
  });
}
