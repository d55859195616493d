/**
 * `bench auto`: how much sooner a run learns whose ranks choose their codec, where lines are slow. Two runs in real tabs, each on a host of
 * its own, over lines on which fp32 communication takes four times as long as a step without it.
 */
import { closeBrowser, launchBrowser } from '../../launcher/browser.ts';
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { openTabs } from '../../launcher/tabs.ts';
import { startSignaling } from '../../signaling/index.ts';
import type { CodecChoice, EngineEvent } from '../../src/protocol/events.ts';
import { parseJob, type PlannedCodec } from '../../src/protocol/job.ts';
import { median } from '../../src/telemetry/statistics.ts';
import { deferred } from '../../src/util/deferred.ts';
import { messageOf, PeergradError } from '../../src/util/errors.ts';
import { withHosts } from '../world/hosts.ts';
import type { Hosts } from '../world/world.ts';
import { autoTable } from './section.ts';

export interface AutoBenchOptions {
  tabs: number;
  /** MNIST's files. */
  data: string;
  /** A script as in `world/hosts.ts`. */
  hosts: string;
  json?: true;
}

export interface Learned {
  codec: string;
  /** Milliseconds since the first step began until held-out accuracy had reached the goal; `null` if it did not. */
  reachedMs: number | null;
  steps: number;
  accuracy: number;
  stepMs: number;
  choice: CodecChoice | null;
}

export interface AutoResult {
  tabs: number;
  /** What a step took by itself on lines without a cap, and what each host received then at most, kilobits per second. */
  ownMs: number;
  rateKbit: number;
  fp32: Learned;
  auto: Learned;
  /** fp32's time over auto's. */
  sooner: number | null;
}

const GOAL = 0.9;
/** Communication over all else, with fp32. */
const TIMES_OWN = 4;
/** Steps on open lines that say how long one takes by itself: the first are left out. */
const OPEN = { steps: 12, leftOut: 4 };
/** Enough to reach the goal; tests come eight times a run. */
const STEPS = 96;
/** Quick to the goal, so that slow lines are waited for as briefly as can be. */
const PLAN = { job: 'mnist', model: 'mlp', batchSize: 64, learningRate: 0.004, epochs: 100, hashEvery: 1000 };

/** @throws (rejects) PeergradError where a tab fails. */
export async function benchAuto({ tabs, data, hosts: tool, json }: AutoBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const result = await withHosts({ tool, count: tabs }, async (hosts, limit): Promise<AutoResult> => {
    io.err(`${tabs} tabs train on open lines ...`);
    const open = await learn(hosts, data, { codec: 'fp32', maxSteps: OPEN.steps }, io, async () => {});
    const rateKbit = rateFor(open.gradientBytes, tabs, open.ownMs);
    const runs = [];
    for (const codec of ['fp32', 'auto'] as const) {
      io.err(`${tabs} tabs train with ${codec}, each line ${rateKbit} kbit/s ...`);
      await limit(OPEN_RATE);
      runs.push(await learn(hosts, data, { codec, maxSteps: STEPS }, io, () => limit(`${rateKbit}kbit`)));
    }
    const [fp32, auto] = runs.map(({ learned }) => learned) as [Learned, Learned];
    const sooner = fp32.reachedMs === null || auto.reachedMs === null ? null : fp32.reachedMs / auto.reachedMs;
    return { tabs, ownMs: open.ownMs, rateKbit, fp32, auto, sooner };
  });
  io.out(json === undefined ? autoTable(result) : JSON.stringify(result));
}

/** Beyond what tabs of one machine move. */
const OPEN_RATE = '1gbit';

/** So slow that a ring's bytes take so many times as long as a step by itself. */
export function rateFor(gradientBytes: number, n: number, ownMs: number): number {
  const bytes = (2 * (n - 1) * gradientBytes) / n;
  return Math.max(1, Math.round((bytes * 8) / (TIMES_OWN * ownMs)));
}

interface Trained {
  learned: Learned;
  ownMs: number;
  gradientBytes: number;
}

/** @param onbegun called after the first step: page and data have come over the lines then. */
async function learn(
  hosts: Hosts,
  data: string,
  { codec, maxSteps }: { codec: PlannedCodec; maxSteps: number },
  io: Io,
  onbegun: () => Promise<void>,
): Promise<Trained> {
  const tabs = hosts.executables.length;
  const server = await startSignaling({ host: hosts.address, dist: DIST, data });
  const job = parseJob({ ...PLAN, codec, maxSteps, data: { kind: 'url', url: '/data/' } });
  const room = server.createRoom({ job, startAt: tabs, nodes: null });
  const browsers = await Promise.all(
    hosts.executables.map((executable) => launchBrowser({ remote: true, executable })),
  );
  const done = deferred();
  done.promise.catch(() => {});
  const fail = (tab: string, message: string): void => done.reject(new PeergradError(`${tab}: ${message}`));
  const learned: Learned = { codec, reachedMs: null, steps: 0, accuracy: 0, stepMs: 0, choice: null };
  const own: number[] = [];
  let at = 0;
  let gradientBytes = 0;
  const onevent = (tab: string, event: EngineEvent): void => {
    if (event.type === 'failed') fail(tab, event.message);
    if (tab !== 'tab-0') return;
    if (event.type === 'model') gradientBytes = event.gradientBytes;
    if (event.type === 'step') {
      at = event.at;
      if (event.step === 0) onbegun().catch((error: unknown) => fail(tab, messageOf(error)));
      if (event.step >= OPEN.leftOut) own.push(event.ms.total - event.ms.exposed);
    }
    if (event.type === 'codec') learned.choice = event.choice;
    if (event.type === 'evaluation' && event.accuracy !== null) {
      learned.accuracy = event.accuracy;
      if (event.accuracy >= GOAL) learned.reachedMs ??= at;
    }
    if (event.type === 'finished') {
      learned.steps = event.result.steps;
      learned.stepMs = event.result.stepMs.median;
      done.resolve();
    }
  };
  try {
    const names = Array.from({ length: tabs }, (_, i) => `tab-${i}`);
    await openTabs<EngineEvent>(browsers, {
      tabs: names.map((name) => ({ name, url: `${server.urls[0]!}/#${room}?name=${name}&auto` })),
      ...{ remote: true, onevent, ondeath: fail, onerror: (tab, message) => io.err(`${tab}: ${message}`) },
    });
    await done.promise;
  } finally {
    await Promise.all(browsers.map(closeBrowser));
    await server.close();
  }
  return { learned, ownMs: median(own), gradientBytes };
}
