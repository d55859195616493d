/**
 * Measures the longest tasks of a page's main thread with Chromium's trace, as CPU time of the
 * thread. Wall-clock time would mislead: where tabs compute WebGPU in software, processes wait for
 * a free core, and a task of one millisecond may last a hundred.
 */
import type { Browser, Page } from 'playwright-core';

/** An event of the trace. `dur` is its wall-clock time and `tdur` its CPU time, in microseconds. */
interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  dur?: number;
  tdur?: number;
  args: { name?: string; data?: { frames?: { processId: number; url: string }[] } };
}

export interface LongTasks {
  tasks: number;
  /**
   * `busiest` is the most CPU time, and `longest` the most wall-clock time that a task took, in
   * milliseconds.
   */
  busiest: number;
  longest: number;
}

/** Traces the open `page` for `ms` milliseconds. */
export async function watchMainThread(browser: Browser, page: Page, ms: number): Promise<LongTasks> {
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline'] });
  await page.waitForTimeout(ms);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  const frames = traceEvents.find(({ name }) => name === 'TracingStartedInBrowser')?.args.data?.frames ?? [];
  const pid = frames.find(({ url }) => url.startsWith(new URL(page.url()).origin))?.processId;
  const main = traceEvents.find(
    (event) => event.pid === pid && event.name === 'thread_name' && event.args.name === 'CrRendererMain',
  );
  const tasks = traceEvents.filter(
    (event) => event.name === 'RunTask' && event.ph === 'X' && event.pid === pid && event.tid === main?.tid,
  );
  return {
    tasks: tasks.length,
    busiest: longestOf(tasks.map(({ tdur }) => tdur ?? 0)),
    longest: longestOf(tasks.map(({ dur }) => dur ?? 0)),
  };
}

/** Returns the maximum of `times`, converted from microseconds to milliseconds. */
function longestOf(times: number[]): number {
  return times.reduce((a, b) => Math.max(a, b), 0) / 1000;
}
