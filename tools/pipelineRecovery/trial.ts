/** One run of `tools pipeline-recovery`: a pipeline in real tabs. One of the tabs is killed. */
import type { BrowserContext, Page } from 'playwright-core';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { JobSpec } from '../../src/spec/job.ts';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import type { SignalingServer } from '../../signaling/index.ts';
import type { Browser } from '../../launcher/browser/browser.ts';
import { loadPage, openProfile, watchPage } from '../../launcher/browser/tabs.ts';
import { isReported, recoveredAt, reportOf, type Observation } from '../chaos/report.ts';
import { crashPage } from '../crashPage.ts';
import { finalHistory } from './finalHistory.ts';

/** Milliseconds for a run. */
const TIMEOUT_MS = 240_000;
/** The first step after which a tab may be killed. */
const FIRST_KILL = 2;
/** The longest time between a step and the kill: a few steps on two cores. */
const LONGEST_DELAY_MS = 300;

export interface TrialOptions {
  browser: Browser;
  server: SignalingServer;
  /** A job with a maximum number of steps. */
  job: JobSpec;
  tabs: number;
  seed: number;
}

export interface Trial {
  seed: number;
  /** `close`: the user closes the tab; `crash`: its process dies. */
  kill: 'close' | 'crash';
  /** The rank of the killed tab. */
  victim: number;
  /** The tab is killed `delayMs` milliseconds after this step. */
  killedAt: number;
  delayMs: number;
  /** Milliseconds from the kill until another tab has taken a step without it. */
  recoveryMs: number | null;
  /** World size and number of stages at the end. */
  ranks: number;
  stages: number;
  steps: number;
  /** The largest number of steps of a tab that were undone. */
  stepsLost: number;
  samplesSkipped: number;
  samplesRepeated: number;
  /** Steps after which the remaining tabs had different states. */
  hashMismatches: number;
}

/**
 * @throws (rejects) PeergradError if a remaining tab fails, or if the run ends before the kill;
 *   TimeoutError.
 */
export async function runTrial({ browser, server, job, tabs, seed }: TrialOptions): Promise<Trial> {
  const rng = createRng(seed);
  const kill = seed % 2 === 0 ? 'close' : 'crash';
  const victim = rng.below(tabs);
  // The second half of the run follows the kill, also if some steps are applied before it.
  const killedAt = FIRST_KILL + rng.below(Math.floor(job.maxSteps! / 2) - FIRST_KILL);
  const delayMs = rng.below(LONGEST_DELAY_MS);
  const names = Array.from({ length: tabs }, (_, rank) => `tab-${rank}`);
  const lost = names[victim]!;
  const observations: Observation[] = [];
  const contexts: BrowserContext[] = [];
  const reached = createDeferred();
  const finished = createDeferred();
  const done = new Map<string, Extract<EngineEvent, { type: 'finished' }>['result']>();
  const fail = (name: string, message: string): void => {
    if (name === lost) return;
    const error = new PeergradError(`Seed ${seed}, ${name}: ${message}`);
    reached.reject(error);
    finished.reject(error);
  };
  /** The latest report of each tab. */
  const latest = new Map<string, string>();
  const onevent = (name: string, event: EngineEvent): void => {
    if (event.type === 'state') latest.set(name, event.detail);
    if (event.type === 'failed') latest.set(name, event.message);
    if (event.type === 'step') latest.set(name, `took step ${event.step}`);
    if (isReported(event)) observations.push({ at: systemClock.now(), tab: name, event });
    if (event.type === 'failed' && event.fatal) fail(name, event.message);
    if (event.type === 'step' && name === lost && event.step >= killedAt) reached.resolve();
    if (event.type === 'finished') done.set(name, event.result);
    if (names.every((each) => each === lost || done.has(each))) finished.resolve();
  };
  const room = server.createRoom({ job, startAt: tabs, nodes: { min: 1, max: tabs } });
  const open = async (name: string): Promise<Page> => {
    // Tabs of different profiles are linked by WebRTC.
    const context = await openProfile(browser, { onevent: (_, event) => onevent(name, event as EngineEvent) });
    contexts.push(context);
    const page = await context.newPage();
    watchPage(page, { ondeath: (message) => fail(name, message), onerror: () => {} });
    await loadPage(page, `${server.urls[0]!}/#${room}?name=${name}&auto`);
    return page;
  };
  const run = async (): Promise<Trial> => {
    const pages = await Promise.all(names.map(open));
    await reached.promise;
    await new Promise<void>((resolve) => systemClock.after(delayMs, resolve));
    if (done.size > 0)
      throw new PeergradError(`Seed ${seed}: the run ended before the kill. Set more steps with --steps.`);
    const at = systemClock.now();
    await (kill === 'close' ? pages[victim]!.close({ runBeforeUnload: true }) : crashPage(pages[victim]!));
    await finished.promise;
    const rest = observations.filter(({ tab }) => tab !== lost);
    const history = finalHistory(rest);
    const { steps, samplesSkipped, samplesRepeated, hashMismatches } = reportOf(history.observations, []);
    const recovered = recoveredAt({ kind: 'crash', tab: lost, at, undoneAt: null, endedAt: at }, rest);
    const [result] = done.values();
    return {
      ...{ seed, kill, victim, killedAt, delayMs },
      recoveryMs: recovered === null ? null : Math.round(recovered - at),
      ranks: result!.worldSize,
      stages: result!.pipeline?.stages ?? 1,
      ...{ steps, stepsLost: history.stepsLost, samplesSkipped, samplesRepeated, hashMismatches },
    };
  };
  // Both may be rejected before they are awaited.
  reached.promise.catch(() => {});
  finished.promise.catch(() => {});
  try {
    const late = (): Error => {
      const states = [...latest].map(([name, detail]) => `${name}: ${detail}`);
      return new TimeoutError(`Timed out: seed ${seed} took more than ${TIMEOUT_MS / 1000} s. ${states.join('; ')}`);
    };
    return await withinDeadline(systemClock, TIMEOUT_MS, run(), late);
  } finally {
    await Promise.all(contexts.map((context) => context.close()));
  }
}
