/** One job of `tools elastic` in real tabs. One tab is killed, and another one joins. */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { TimeoutError } from '../../src/util/errors.ts';
import { createRng } from '../../src/util/rng.ts';
import { crashPage } from '../crashPage.ts';
import { EPOCHS, SAMPLES, type Job, type Result } from './job.ts';

/** Number of tabs at the start. */
const TABS = 4;
/** Milliseconds for a job. WebGPU in software needs about half a second for a step of five tabs. */
const TIMEOUT_MS = 180_000;

export interface TrialOptions {
  browser: Browser;
  /** Address of the page. */
  url: string;
  seed: number;
  backend: Job['backend'];
}

export interface Trial {
  seed: number;
  /** `close`: the user closes the tab; `crash`: its process dies. */
  kill: 'close' | 'crash';
  killedAt: number;
  joinedAt: number;
  /** Milliseconds from the kill until another tab begins a step in a new generation. */
  recoveryMs: number;
  /** Number of tabs at the end. */
  ranks: number;
  steps: number;
  /** The largest number of steps that one tab began and that were lost with a generation. */
  stepsRepeated: number;
  samplesSkipped: number;
  samplesRepeated: number;
  hashes: string[];
}

interface Tab {
  readonly page: Page;
  readonly result: Promise<Result>;
}

/**
 * Runs a job. Even seeds close a tab that shares its browser with the others, so tabs are linked in
 * memory. Odd seeds crash a tab, and each tab has its own browser profile, so tabs are linked by
 * WebRTC.
 */
export async function runTrial({ browser, url, seed, backend }: TrialOptions): Promise<Trial> {
  const rng = createRng(seed);
  const kill = seed % 2 === 0 ? 'close' : 'crash';
  const victim = rng.below(TABS);
  const killAt = 3 + rng.below(15);
  const joinAt = 3 + rng.below(15);
  const delayMs = rng.below(60);
  const contexts: BrowserContext[] = [];
  const opened = createDeferred<string>();
  const killed = createDeferred();
  const joins = createDeferred();
  const recovered = createDeferred<number>();
  let killedAt: number | null = null;
  let generation = 0;

  const open = async (isVictim: boolean): Promise<Page> => {
    if (kill === 'crash' || contexts.length === 0) {
      const context = await browser.newContext();
      // Without this permission, WebRTC hides local IP addresses behind mDNS names.
      await context.grantPermissions(['microphone']);
      contexts.push(context);
    }
    const page = await contexts.at(-1)!.newPage();
    await page.exposeFunction('onroom', opened.resolve);
    await page.exposeFunction('onstep', (step: number, current: number) => {
      if (step >= joinAt) joins.resolve();
      if (isVictim && step >= killAt) killed.resolve();
      if (killedAt === null) generation = Math.max(generation, current);
      else if (current > generation) recovered.resolve(systemClock.now() - killedAt);
    });
    await page.goto(url);
    await page.waitForFunction(() => 'trainElastic' in window);
    return page;
  };
  const train = (page: Page, room: string | null): Tab => {
    const job: Job = { room, backend, worldSize: TABS, transport: 'auto' };
    const result = page.evaluate((one) => window.trainElastic(one), job);
    // The victim's page never answers.
    result.catch(() => {});
    return { page, result };
  };
  const run = async (): Promise<Trial> => {
    const pages = await Promise.all(Array.from({ length: TABS }, (_, i) => i === victim).map(open));
    const first = train(pages[0]!, null);
    const room = await opened.promise;
    const tabs = [first, ...pages.slice(1).map((page) => train(page, room))];
    const late = joins.promise.then(async () => train(await open(false), room));
    await killed.promise;
    await new Promise<void>((resolve) => systemClock.after(delayMs, resolve));
    const { page } = tabs[victim]!;
    killedAt = systemClock.now();
    if (kill === 'close') await page.close({ runBeforeUnload: true });
    else await crashPage(page);
    const rest = [...tabs.filter((_, i) => i !== victim), await late];
    const results = await Promise.all(rest.map(({ result }) => result));
    const { steps, ranks } = results[0]!;
    return {
      seed,
      kill,
      killedAt: killAt,
      joinedAt: joinAt,
      recoveryMs: Math.round(await recovered.promise),
      ranks,
      steps: steps.length,
      stepsRepeated: Math.max(...results.map(({ repeated }) => repeated)),
      ...countSamples(results),
      hashes: results.map(({ hash }) => hash),
    };
  };
  try {
    const late = (): Error => new TimeoutError(`Timed out: seed ${seed} took more than ${TIMEOUT_MS / 1000} s.`);
    return await withinDeadline(systemClock, TIMEOUT_MS, run(), late);
  } finally {
    await Promise.all(contexts.map((context) => context.close()));
  }
}

/** Counts the samples that an epoch did not use, and those that it used again, over all results. */
function countSamples(results: readonly Result[]): Pick<Trial, 'samplesSkipped' | 'samplesRepeated'> {
  let [samplesSkipped, samplesRepeated] = [0, 0];
  for (const { steps } of results) {
    const counts = new Uint32Array(EPOCHS * SAMPLES);
    for (const { epoch, indices } of steps) for (const index of indices) counts[epoch * SAMPLES + index]! += 1;
    samplesSkipped += counts.filter((count) => count === 0).length;
    samplesRepeated += counts.filter((count) => count > 1).length;
  }
  return { samplesSkipped, samplesRepeated };
}
