/** Makes one fault after the other, each once the one before is over. */
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

interface Inflicted {
  fault: Fault;
  /** `null` where the fault is not undone. */
  cure: Cure | null;
}

interface Cure {
  /** Milliseconds after the fault. */
  afterMs: number;
  undo: () => void | Promise<void>;
  /**
   * Whether all is as before the fault, if one can know, and how many milliseconds that may take.
   */
  isWell: () => boolean;
  withinMs: number;
}

/**
 * Milliseconds a tab is frozen or cut: longer than the server waits until it counts a silent tab as
 * gone.
 */
const AWAY_MS = 20_000;
/** Milliseconds that the server is away. */
const SERVER_AWAY_MS = 3_000;
/** Milliseconds for the tabs to find the server again, which they need not tell. */
const SERVER_BACK_MS = 8_000;
/**
 * Milliseconds after which a fault counts as one that training did not recover from; a tab that
 * joins takes the longest.
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
   * Makes the planned faults, none before its time, until `minutes` are over (kinds that have not
   * come until then come late) or the run has ended.
   *
   * @throws (rejects) what {@link TabPool.until} does.
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
    const inflicted = await this.#inflict(planned);
    if (inflicted === null) return;
    const { fault, cure } = inflicted;
    try {
      try {
        const isLost = (): boolean => bringsTab(fault.kind) && fault.tab !== null && pool.hasFailed(fault.tab);
        const hasRecovered = (): boolean => recoveredAt(fault, pool.observations) !== null;
        await pool.until(() => pool.isFinished || isLost() || hasRecovered(), RECOVERY_MS);
        io.err(this.#describe(fault));
        const { afterMs = 0 } = cure ?? {};
        await pool.until(() => pool.isFinished || systemClock.now() >= fault.at + afterMs, Infinity);
      } finally {
        // Whatever happens: a browser whose processes stand still does not close.
        await cure?.undo();
      }
      if (cure !== null) {
        fault.curedAt = systemClock.now();
        await pool.until(() => pool.isFinished || cure.isWell(), cure.withinMs);
      }
      await pool.replaceFailed();
      await pool.until(() => pool.isFinished, REST_MS);
    } finally {
      fault.endedAt = systemClock.now();
    }
  }

  /** Does it; `null` where there is nobody to do it to, or no room for another tab. */
  async #inflict({ kind, seat }: PlannedFault): Promise<Inflicted | null> {
    const { pool, server } = this.#options;
    if (kind === 'server') {
      const fault = this.#record(kind, null);
      await server.kill();
      const cure = {
        afterMs: SERVER_AWAY_MS,
        undo: () => server.restart(),
        isWell: () => false,
        withinMs: SERVER_BACK_MS,
      };
      return { fault, cure };
    }
    if (kind === 'join') {
      if (!pool.isFree(seat)) return null;
      const name = pool.newName();
      const fault = this.#record(kind, name);
      await pool.open(seat, name);
      return { fault, cure: null };
    }
    const tab = pool.at(seat);
    if (tab === null) return null;
    if (kind === 'duplicate') {
      const name = pool.newName();
      const fault = this.#record(kind, name);
      await pool.duplicate(tab, name);
      return { fault, cure: null };
    }
    const fault = this.#record(kind, tab.name);
    if (kind === 'edge') {
      await breakEdge(tab);
      return { fault, cure: null };
    }
    if (kind === 'close' || kind === 'crash') {
      await (kind === 'close' ? closeTab(tab) : crashTab(tab));
      pool.remove(tab);
      return { fault, cure: null };
    }
    const undo = await (kind === 'freeze' ? freezeTab(tab) : cutTab(tab));
    const isWell = (): boolean => returnedAt(fault, pool.observations) !== null || pool.hasFailed(tab.name);
    return { fault, cure: { afterMs: AWAY_MS, undo, isWell, withinMs: RECOVERY_MS } };
  }

  #record(kind: FaultKind, tab: string | null): Fault {
    const now = systemClock.now();
    const fault = { kind, tab, at: now, curedAt: null, endedAt: now };
    this.faults.push(fault);
    return fault;
  }

  #describe(fault: Fault): string {
    const at = recoveredAt(fault, this.#options.pool.observations);
    const what = fault.tab === null ? fault.kind : `${fault.kind} ${fault.tab}`;
    return at === null
      ? `${what}: not recovered from.`
      : `${what}: training again after ${((at - fault.at) / 1000).toFixed(1)} s.`;
  }
}
