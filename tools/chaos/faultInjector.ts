/**
 * Injects faults one after the other. The next fault waits until the run has recovered from the
 * previous one.
 */
import { systemClock } from '../../src/util/clock.ts';
import type { Io } from '../../launcher/io.ts';
import type { TabPool } from './tabPool.ts';
import { bringsTab, type Fault, type FaultKind } from './faults.ts';
import { recoveredAt, returnedAt } from './report.ts';
import { type PlannedFault, REST_MS } from './schedule.ts';
import type { ServerProcess } from './serverProcess.ts';
import { breakEdge, closeTab, crashTab, cutTab, freezeTab } from './tabFaults.ts';

interface FaultInjectorOptions {
  pool: TabPool;
  server: ServerProcess;
  io: Io;
}

interface Injected {
  fault: Fault;
  /** How the fault is undone; `null` if it is permanent. */
  repair: Repair | null;
}

interface Repair {
  /** When the fault is undone, in milliseconds after its injection. */
  afterMs: number;
  undo: () => void | Promise<void>;
  /**
   * Whether the tab has recovered, as far as this can be observed. The next fault waits for this,
   * but at most `withinMs` milliseconds.
   */
  hasRecovered: () => boolean;
  withinMs: number;
}

/**
 * Milliseconds for which a tab is frozen or without a network. This is longer than the server waits
 * for a silent tab.
 */
const AWAY_MS = 20_000;
/** Milliseconds for which the server is not running. */
const SERVER_AWAY_MS = 3_000;
/**
 * Milliseconds for the tabs to reconnect to the server. They do not report when they have
 * reconnected.
 */
const SERVER_BACK_MS = 8_000;
/**
 * If training has not continued after this time, in milliseconds, the run has not recovered from
 * the fault. A joining tab takes longest.
 */
const RECOVERY_MS = 90_000;

export class FaultInjector {
  /** In the order of time. */
  readonly faults: Fault[] = [];
  readonly #options: FaultInjectorOptions;

  constructor(options: FaultInjectorOptions) {
    this.#options = options;
  }

  /**
   * Injects the planned faults until `minutes` have passed or the run has ended. No fault is
   * injected before its planned time. When the minutes are over, each kind of fault that has not
   * occurred is injected once.
   *
   * @throws (rejects) the errors of {@link TabPool.until}.
   */
  async inject(plan: readonly PlannedFault[], minutes: number): Promise<void> {
    const { pool } = this.#options;
    const startedAt = systemClock.now();
    const endsAt = startedAt + minutes * 60_000;
    for (const planned of plan) {
      await pool.until(() => pool.isFinished || systemClock.now() >= startedAt + planned.at, Infinity);
      if (pool.isFinished) return;
      const isNew = this.faults.every(({ kind }) => kind !== planned.kind);
      if (isNew || systemClock.now() < endsAt) await this.#make(planned);
    }
    await pool.until(() => pool.isFinished || systemClock.now() >= endsAt, Infinity);
  }

  async #make(planned: PlannedFault): Promise<void> {
    const { pool, io } = this.#options;
    const injected = await this.#apply(planned);
    if (injected === null) return;
    const { fault, repair } = injected;
    try {
      try {
        const isLost = (): boolean => bringsTab(fault.kind) && fault.tab !== null && pool.hasFailed(fault.tab);
        const hasRecovered = (): boolean => recoveredAt(fault, pool.observations) !== null;
        await pool.until(() => pool.isFinished || isLost() || hasRecovered(), RECOVERY_MS);
        io.err(this.#describe(fault));
        const { afterMs = 0 } = repair ?? {};
        await pool.until(() => pool.isFinished || systemClock.now() >= fault.at + afterMs, Infinity);
      } finally {
        // The fault is undone in any case, because a browser with stopped processes does not close.
        await repair?.undo();
      }
      if (repair !== null) {
        fault.undoneAt = systemClock.now();
        await pool.until(() => pool.isFinished || repair.hasRecovered(), repair.withinMs);
      }
      await pool.replaceFailed();
      await pool.until(() => pool.isFinished, REST_MS);
    } finally {
      fault.endedAt = systemClock.now();
    }
  }

  /**
   * Injects a fault. Resolves with `null` if there is no tab for it, or no free seat for another
   * tab.
   */
  async #apply({ kind, seat }: PlannedFault): Promise<Injected | null> {
    const { pool, server } = this.#options;
    if (kind === 'server') {
      const fault = this.#record(kind, null);
      await server.kill();
      const repair = {
        afterMs: SERVER_AWAY_MS,
        undo: () => server.restart(),
        hasRecovered: () => false,
        withinMs: SERVER_BACK_MS,
      };
      return { fault, repair };
    }
    if (kind === 'join') {
      if (!pool.isFree(seat)) return null;
      const name = pool.newName();
      const fault = this.#record(kind, name);
      await pool.open(seat, name);
      return { fault, repair: null };
    }
    const tab = pool.at(seat);
    if (tab === null) return null;
    if (kind === 'duplicate') {
      const name = pool.newName();
      const fault = this.#record(kind, name);
      await pool.duplicate(tab, name);
      return { fault, repair: null };
    }
    const fault = this.#record(kind, tab.name);
    if (kind === 'edge') {
      await breakEdge(tab);
      return { fault, repair: null };
    }
    if (kind === 'close' || kind === 'crash') {
      await (kind === 'close' ? closeTab(tab) : crashTab(tab));
      pool.remove(tab);
      return { fault, repair: null };
    }
    const undo = await (kind === 'freeze' ? freezeTab(tab) : cutTab(tab));
    const hasRecovered = (): boolean => returnedAt(fault, pool.observations) !== null || pool.hasFailed(tab.name);
    return { fault, repair: { afterMs: AWAY_MS, undo, hasRecovered, withinMs: RECOVERY_MS } };
  }

  #record(kind: FaultKind, tab: string | null): Fault {
    const now = systemClock.now();
    const fault = { kind, tab, at: now, undoneAt: null, endedAt: now };
    this.faults.push(fault);
    return fault;
  }

  #describe(fault: Fault): string {
    const at = recoveredAt(fault, this.#options.pool.observations);
    const what = fault.tab === null ? fault.kind : `${fault.kind} ${fault.tab}`;
    return at === null
      ? `${what}: training did not recover.`
      : `${what}: training again after ${((at - fault.at) / 1000).toFixed(1)} s.`;
  }
}
