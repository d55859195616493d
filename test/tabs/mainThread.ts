/**
 * Length of the tasks of a page's main thread, by Chromium's trace, in thread time. Where tabs
 * compute in software, the processes of a machine take turns, and a task of one millisecond may
 * last a hundred by the clock.
 */
import type { Browser, Page } from 'playwright-core';

/** Events of the trace; `tdur` is microseconds of the thread. */
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
  /** Milliseconds of the longest task, by the thread's time and by the clock. */
  busiest: number;
  longest: number;
}

/** Traces the open `page` for this number of milliseconds. */
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

/** Microseconds to milliseconds. */
function longestOf(times: number[]): number {
  return times.reduce((a, b) => Math.max(a, b), 0) / 1000;
}
