/**
 * `bench telemetry`: what it costs a step that ranks tell each other how they spend it. One run in
 * real tabs, in which stretches of steps with all telemetry alternate with stretches that tell the
 * steps only (the plan's `quietStretch`): both meet the same machine.
 */
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import { closeBrowser, launchBrowsers } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import { openTabs } from '../../launcher/browser/tabs.ts';
import { startSignaling } from '../../signaling/index.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { parseJob } from '../../src/spec/job.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { cpuTimeOfDescendants, type CpuTime } from './cpuTime.ts';
import { STRETCH, telemetryTable, type TelemetryResult } from './section.ts';
import { compareCpu, compareStretches, type Taken } from './stretches.ts';

export interface TelemetryBenchOptions {
  tabs: number;
  steps: number;
  json?: true;
}

/** @throws (rejects) PeergradError where a tab fails. */
export async function benchTelemetry({ tabs, steps, json }: TelemetryBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  // Tests come eight times a run: not always after the same kind of stretch.
  const maxSteps = Math.ceil(steps / 8) % STRETCH === 0 ? steps + 8 : steps;
  const job = parseJob({ maxSteps, epochs: 1000, hashEvery: STRETCH, quietStretch: STRETCH });
  const server = await startSignaling({ dist: DIST });
  const room = server.createRoom({ job, startAt: tabs, nodes: null });
  const browsers = await launchBrowsers(tabs, {});
  const taken: Taken[] = [];
  const tested = new Set<number>();
  const times: (CpuTime | null)[] = [];
  const done = deferred();
  // Where nobody awaits it yet.
  done.promise.catch(() => {});
  const fail = (tab: string, message: string): void => done.reject(new PeergradError(`${tab}: ${message}`));
  const onevent = (tab: string, event: EngineEvent): void => {
    if (event.type === 'failed') fail(tab, event.message);
    if (tab !== 'tab-0') return;
    if (event.type === 'step') {
      taken.push({ step: event.step, at: event.at, ms: event.ms.total });
      // The exchange of the stretch before is over by now.
      if (event.step % STRETCH === 0) times.push(cpuTimeOfDescendants());
    }
    if (event.type === 'evaluation') tested.add(event.step);
    if (event.type === 'finished') done.resolve();
  };
  try {
    io.err(`${tabs} tabs take ${maxSteps} steps, and tell of every second ${STRETCH} ...`);
    const names = Array.from({ length: tabs }, (_, i) => `tab-${i}`);
    await openTabs<EngineEvent>(browsers, {
      tabs: names.map((name) => ({ name, url: `${server.urls.at(-1)!}/#${room}?name=${name}&auto` })),
      ...{ onevent, ondeath: fail, onerror: (tab, message) => io.err(`${tab}: ${message}`) },
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
