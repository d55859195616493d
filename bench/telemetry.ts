/**
 * `bench telemetry`: the cost of the exchange of step timings. In one run in real tabs, stretches
 * of steps with full telemetry alternate with stretches that report steps only (the plan's
 * `quietStretch`), so that both run on the same machine.
 */
import { closeBrowser, launchBrowsers } from '../launcher/browser/browser.ts';
import { openTabs } from '../launcher/browser/tabs.ts';
import { DIST, ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { startSignaling } from '../signaling/index.ts';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import type { EngineEvent } from '../src/protocol/events.ts';
import { parseJob } from '../src/spec/job.ts';
import { deferred } from '../src/util/deferred.ts';
import { PeergradError } from '../src/util/errors.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { option } from './command/options.ts';
import { table } from './report/table.ts';
import { type CpuTime, cpuTimeOfDescendants } from './telemetry/cpuTime.ts';
import {
  compareCpu,
  compareStretches,
  type Comparison,
  type CpuComparison,
  type TimedStep,
} from './telemetry/stretches.ts';

export interface TelemetryBenchOptions {
  tabs: number;
  steps: number;
  json?: true;
}

/** @throws (rejects) PeergradError if a tab fails. */
export async function benchTelemetry({ tabs, steps, json }: TelemetryBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  // A run has eight evaluations: not always after the same kind of stretch.
  const maxSteps = Math.ceil(steps / 8) % STRETCH === 0 ? steps + 8 : steps;
  const job = parseJob({ maxSteps, epochs: 1000, hashEvery: STRETCH, quietStretch: STRETCH });
  const server = await startSignaling({ dist: DIST });
  const room = server.createRoom({ job, startAt: tabs, nodes: null });
  const browsers = await launchBrowsers(tabs, {});
  const taken: TimedStep[] = [];
  const tested = new Set<number>();
  const times: (CpuTime | null)[] = [];
  const done = deferred();
  // It may reject before it is awaited.
  done.promise.catch(() => {});
  const fail = (tab: string, message: string): void => done.reject(new PeergradError(`${tab}: ${message}`));
  const onevent = (tab: string, event: EngineEvent): void => {
    if (event.type === 'failed') fail(tab, event.message);
    if (tab !== 'tab-0') return;
    if (event.type === 'step') {
      taken.push({ step: event.step, at: event.at, ms: event.ms.total });
      // The exchange of the previous stretch has ended by now.
      if (event.step % STRETCH === 0) times.push(cpuTimeOfDescendants());
    }
    if (event.type === 'evaluation') tested.add(event.step);
    if (event.type === 'finished') done.resolve();
  };
  try {
    io.err(`${tabs} tabs take ${maxSteps} steps, with telemetry in every second stretch of ${STRETCH} ...`);
    const names = Array.from({ length: tabs }, (_, i) => `tab-${i}`);
    await openTabs<EngineEvent>(browsers, {
      tabs: names.map((name) => ({ name, url: `${server.urls.at(-1)!}/#${room}?name=${name}&auto` })),
      onevent,
      ondeath: fail,
      onerror: (tab, message) => io.err(`${tab}: ${message}`),
    });
    await done.promise;
  } finally {
    await Promise.all(browsers.map(closeBrowser));
    await server.close();
  }
  const known = times.filter((time) => time !== null);
  const cpu = known.length === times.length ? compareCpu(known, tested, STRETCH) : null;
  const result: TelemetryResult = { tabs, steps: maxSteps, ...compareStretches(taken, tested, STRETCH), cpu };
  io.out(json === undefined ? telemetryTable(result) : JSON.stringify(result));
}

export interface TelemetryResult extends Comparison {
  tabs: number;
  steps: number;
  /** `null` if the system does not count CPU time. */
  cpu: CpuComparison | null;
}

/**
 * Steps of a stretch: as many as between two exchanges, so that every stretch with telemetry has
 * one.
 */
export const STRETCH = 20;

export function telemetryTable({ cpu, ...clock }: TelemetryResult): string {
  const { exchangeMs, fastOverhead } = clock;
  const both = (ofOne: (one: CpuComparison) => string): string[] => [ofOne(clock), cpu ? ofOne(cpu) : '-'];
  return table(
    ['a step', 'by the clock', 'of all processors'],
    [
      ['with all telemetry, ms', ...both(({ fullMs }) => fullMs.toFixed(2))],
      ['steps only, ms', ...both(({ reducedMs }) => reducedMs.toFixed(2))],
      [`an exchange, every ${STRETCH} steps, ms`, exchangeMs.toFixed(2), cpu ? 'included' : '-'],
      ['increase in all, %', ...both(({ overhead }) => percent(overhead))],
      ['95 % confidence, %', ...both(({ interval }) => interval.map(percent).join(' .. '))],
      ['pairs of stretches', ...both(({ pairs }) => String(pairs))],
      ['increase of the fastest quarter, %', percent(fastOverhead), '-'],
    ],
  );
}

function percent(share: number): string {
  return (100 * share).toFixed(2);
}

export function section(result: TelemetryResult): string {
  return `## What telemetry costs

\`npm run -s bench -- telemetry\`: one run of ${result.tabs} tabs in which stretches of ${STRETCH} steps with all telemetry alternate
with stretches that report steps only. Each stretch is compared with its neighbours; the median of these pairs counts. The clock includes the
machine's other work. The processor time of the browsers' processes does not; it includes pages that draw. Its increase beside the
model's shaders counts, as a share of all. If all cores are busy, a step takes longer by that share.

${telemetryTable(result)}

The interval is that of the median, by resampling pairs.
`;
}

export const telemetry = defineBenchmark({
  name: 'telemetry',
  description: 'measure what the exchange of step timings costs: stretches of one run with and without it',
  options: [
    option('--tabs <n>', 'world size', wholeNumber(1, MAX_WORLD_SIZE), 4),
    option('--steps <n>', 'steps of the run', wholeNumber(100, 1_000_000), 640),
  ],
  run: benchTelemetry,
  section,
});
