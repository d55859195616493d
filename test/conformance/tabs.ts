/**
 * Runs conformance cases in real Chromium tabs, which join a room of the signaling server and use
 * WebRTC. This file runs in Node; `page.ts` runs in the tabs.
 */
import type { BrowserContext, Page } from 'playwright-core';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { errorMessageOf } from '../../src/util/errors.ts';
import { OwnPage } from '../tabs/harness/ownPage.ts';
import type { ConformanceCase, GroupCase } from './case.ts';
import { CASES } from './cases.ts';
import { ConformanceError, expectEqual, expectThat } from './expect.ts';
import { HANG_MS } from './runner.ts';

/** Number of tabs in which cases run. More tabs would only wait for the CPU. */
const WORLD_SIZE = 4;
/**
 * Timeout of operations in milliseconds while rank 0 is frozen. Rank 0 stays frozen longer, for
 * FREEZE_MS.
 */
const FREEZE_TIMEOUT_MS = 2000;
const FREEZE_MS = 10_000;

const noEnd = (): Error => new ConformanceError(`no end after ${HANG_MS / 1000} s`);

/** A case that exists only in tabs. */
interface TabCase {
  readonly number: number;
  readonly title: string;
  readonly run: (tabs: Tabs) => Promise<void>;
}

/** Returns the world sizes with which a case runs in tabs. */
function sizesInTabs(entry: ConformanceCase): number[] {
  if ('check' in entry || !entry.inTabs) return [];
  // Only the world group can create subgroups. Smaller world sizes run in subgroups, so a case that
  // creates groups runs only with the whole world.
  return entry.worlds.filter((n) => (entry.needsWorld ? n === WORLD_SIZE : n <= WORLD_SIZE));
}

/** The cases that run in tabs. */
export const CASES_IN_TABS = CASES.filter((entry): entry is GroupCase => sizesInTabs(entry).length > 0);

export class Tabs {
  readonly #page: OwnPage;
  #context: BrowserContext | null = null;
  /**
   * Tabs of the world in which cases run. The list is empty before the first case and after a
   * failure.
   */
  #world: Page[] = [];

  private constructor(page: OwnPage) {
    this.#page = page;
  }

  static async start(): Promise<Tabs> {
    return new Tabs(await OwnPage.start('test/conformance/page.html', 'joinWorld'));
  }

  close(): Promise<void> {
    return this.#page.stop();
  }

  /** Opens `count` tabs for a new world, and closes the tabs of the previous world. */
  async open(count: number): Promise<Page[]> {
    await this.#context?.close();
    this.#world = [];
    const context = await this.#page.openContext();
    this.#context = context;
    return Promise.all(Array.from({ length: count }, () => this.#page.openTab(context)));
  }

  /** Opens a room in a tab. Returns the room's code and a promise of the tab's rank. */
  async host(page: Page, worldSize: number, timeoutMs?: number): Promise<{ room: string; rank: Promise<number> }> {
    const room = createDeferred<string>();
    await page.exposeFunction('onroom', room.resolve);
    const rank = this.enter(page, null, worldSize, timeoutMs);
    rank.catch(() => {});
    return { room: await room.promise, rank };
  }

  /** Joins a room in a tab. Resolves with the tab's rank once all tabs have joined. */
  enter(page: Page, room: string | null, worldSize: number, timeoutMs?: number): Promise<number> {
    return page.evaluate(([code, n, ms]) => window.joinWorld(code, n, ms), [room, worldSize, timeoutMs] as const);
  }

  /** Makes `pages` join one world. Resolves with the tabs in the order of ranks. */
  async join(pages: readonly Page[], worldSize: number, timeoutMs?: number): Promise<Page[]> {
    const [first, ...others] = pages;
    const { room, rank } = await this.host(first!, worldSize, timeoutMs);
    const ranks = await Promise.all([rank, ...others.map((page) => this.enter(page, room, worldSize, timeoutMs))]);
    return pages.toSorted((a, b) => ranks[pages.indexOf(a)]! - ranks[pages.indexOf(b)]!);
  }

  /** Runs a case with every world size that is possible in tabs. Resolves with the failures. */
  async runCase(entry: GroupCase): Promise<string[]> {
    const failures: string[] = [];
    for (const n of sizesInTabs(entry)) {
      if (this.#world.length === 0) this.#world = await this.join(await this.open(WORLD_SIZE), WORLD_SIZE);
      const failed = await this.#runAt(entry, n);
      failures.push(...failed.map((message) => `world of ${n}, ${message}`));
      // After a failed case the world may not work any more, so the next case opens a new one.
      if (failed.length > 0) this.#world = [];
    }
    return failures;
  }

  async #runAt(entry: GroupCase, n: number): Promise<string[]> {
    const index = CASES.indexOf(entry);
    const results = this.#world.map((page) =>
      page.evaluate(([which, size]) => window.runConformanceCase(which, size), [index, n] as const),
    );
    try {
      return (await withinDeadline(systemClock, HANG_MS, Promise.all(results), noEnd)).filter(
        (message) => message !== null,
      );
    } catch (error) {
      return [errorMessageOf(error)];
    }
  }
}

/**
 * Three tabs call allReduce in a loop until `trouble` happens to rank 0. Returns the errors of the
 * other ranks, and the milliseconds from the trouble to the errors.
 */
async function endLoops(tabs: Tabs, timeoutMs: number, trouble: (page: Page) => unknown) {
  const pages = await tabs.join(await tabs.open(3), 3);
  const [first, ...others] = pages;
  const loops = pages.map((page) => page.evaluate((ms) => window.loop(ms, Infinity), timeoutMs));
  loops[0]!.catch(() => {});
  await first!.waitForTimeout(300);
  const startedAt = performance.now();
  void trouble(first!);
  const errors = await withinDeadline(systemClock, HANG_MS, Promise.all(loops.slice(1)), noEnd);
  expectEqual(errors.filter((error) => error !== null).length, others.length, 'errors');
  return { errors: errors.map((error) => error!), elapsed: performance.now() - startedAt };
}

export const TAB_CASES: readonly TabCase[] = [
  {
    number: 12,
    title: 'a new tab is rejected while a world trains, and can join after this world has ended',
    run: async (tabs) => {
      const [first, second, third] = (await tabs.open(3)) as [Page, Page, Page];
      const { room, rank } = await tabs.host(first, 2);
      await Promise.all([rank, tabs.enter(second, room, 2)]);
      const pages = [first, second];
      const work = pages.map((page) => page.evaluate(() => window.loop(10_000, 200)));
      const outcome = await tabs.enter(third, room, 2).then(
        () => 'nothing',
        (error: unknown) => errorMessageOf(error),
      );
      expectThat(/SignalingError.*(running|training)/.test(outcome), `expected a rejection, got ${outcome}`);
      expectEqual(await Promise.all(work), [null, null], 'errors of the running ranks');
      await Promise.all(pages.map((page) => page.evaluate(() => window.leaveWorld())));
      const ranks = await Promise.all([third, first].map((page) => tabs.enter(page, room, 2)));
      expectEqual(
        ranks.toSorted((a, b) => a - b),
        [0, 1],
        'ranks of the next world in the room',
      );
    },
  },
  {
    number: 33,
    title: 'when a tab is closed, every other tab receives PeerGoneError',
    run: async (tabs) => {
      const { errors } = await endLoops(tabs, 10_000, (page) => page.close());
      for (const { name, message } of errors) expectEqual(name, 'PeerGoneError', `error of a closed tab (${message})`);
    },
  },
  {
    number: 34,
    title: 'when a tab freezes, every other tab receives TimeoutError',
    run: async (tabs) => {
      const { errors, elapsed } = await endLoops(tabs, FREEZE_TIMEOUT_MS, (page) =>
        page
          .evaluate((ms) => {
            for (const end = performance.now() + ms; performance.now() < end;);
          }, FREEZE_MS)
          .catch(() => {}),
      );
      for (const { name, message } of errors) expectEqual(name, 'TimeoutError', `error of a frozen tab (${message})`);
      expectThat(
        elapsed >= FREEZE_TIMEOUT_MS / 2,
        `the other ranks waited ${elapsed} ms, expected at least half of the timeout`,
      );
    },
  },
  {
    number: 36,
    title: 'initProcessGroup of a world of four tabs times out if one tab does not join',
    run: async (tabs) => {
      const pages = await tabs.open(3);
      const message = await tabs.join(pages, 4, 3000).then(
        () => 'nothing',
        (error: unknown) => errorMessageOf(error),
      );
      expectThat(
        message.includes('not all ranks had joined after 3 s'),
        `expected a timeout after 3 s, got ${message}`,
      );
    },
  },
];
