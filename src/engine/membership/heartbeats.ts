/**
 * Sends a member's heartbeats, and notices that the server no longer answers. It counts unanswered
 * heartbeats instead of milliseconds, because a machine may sleep.
 */
import type { ClientMessage } from '../../protocol/control.ts';
import type { Pulse } from '../../protocol/room.ts';
import {
  FIRST_THREAD_TASK_LIMIT_MS,
  type ActivityReport,
  MAX_LINE_DELAY_BYTES,
  MAX_LINE_DELAY_MS,
  pulseOfActiveRank,
} from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';

/**
 * After this number of unanswered heartbeats the connection is considered dead. A handover between
 * Wi-Fi access points takes less time.
 */
const MAX_UNANSWERED = 4;
/** Used instead of {@link MAX_UNANSWERED} if there is a reason to doubt the connection. */
const MAX_UNANSWERED_IN_DOUBT = 2;
const DOUBTED = MAX_UNANSWERED - MAX_UNANSWERED_IN_DOUBT;
/**
 * If a heartbeat is late by this number of milliseconds, the machine may have slept. Meanwhile the
 * server or a router may have dropped the connection.
 */
const LATE_MS = 5_000;

export interface HeartbeatTimeSources {
  clock: Clock;
  /** Returns milliseconds since 1970. Unlike some clocks, it advances while the machine sleeps. */
  today: () => number;
}

interface HeartbeatsOptions extends HeartbeatTimeSources {
  send: (message: ClientMessage) => void;
  /** Returns what the rank does now. */
  pulse: (intervalMs: number) => Pulse;
  /** Returns the bytes that this tab's links have sent and received. */
  bytes: () => number;
  /** Called when the server no longer answers. */
  onlost: () => void;
}

export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  #cancel: () => void = () => {};
  /** Milliseconds between two heartbeats; 0 before the first. */
  #intervalMs = 0;
  /** The number of heartbeats since the last message from the server. */
  #unanswered = 0;
  /** The number of heartbeats since bytes were last sent or received over links. */
  #still = 0;
  /** The links' byte count at the last heartbeat. */
  #bytes = 0;
  /** The links' byte count at the first heartbeat without an answer. */
  #bytesBefore = 0;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
  }

  start(intervalMs: number): void {
    this.#intervalMs = intervalMs;
    this.#beat();
  }

  /** Call this with each message from the server. */
  answered(): void {
    this.#unanswered = 0;
  }

  /** Asks the server for an answer now, instead of at the next heartbeat. */
  check(): void {
    if (this.#intervalMs === 0 || this.#unanswered > DOUBTED) return;
    this.#unanswered = DOUBTED;
    this.#beat();
  }

  stop(): void {
    this.#cancel();
  }

  /**
   * Whether the server's answers may be late only because the line is busy with the links' data.
   * Links must have moved bytes recently, but fewer than {@link MAX_LINE_DELAY_BYTES} since the
   * first heartbeat without an answer. A fast line soon moves more, and then no longer counts as
   * busy.
   */
  get #isLineBusy(): boolean {
    return (
      this.#still < MAX_UNANSWERED &&
      this.#bytes - this.#bytesBefore < MAX_LINE_DELAY_BYTES &&
      this.#unanswered * this.#intervalMs < MAX_LINE_DELAY_MS
    );
  }

  #beat(): void {
    const { clock, today, send, pulse, bytes, onlost } = this.#options;
    this.#cancel();
    this.#still = bytes() === this.#bytes ? this.#still + 1 : 0;
    this.#bytes = bytes();
    if (this.#unanswered === 0) this.#bytesBefore = this.#bytes;
    if (this.#unanswered >= MAX_UNANSWERED && !this.#isLineBusy) return onlost();
    this.#unanswered += 1;
    send({ type: 'heartbeat', pulse: pulse(this.#intervalMs) });
    const due = today() + this.#intervalMs;
    this.#cancel = clock.after(this.#intervalMs, () => {
      if (today() - due > LATE_MS) this.#unanswered = Math.max(this.#unanswered, DOUBTED);
      this.#beat();
    });
  }
}

/**
 * After this number of unanswered questions, a thread is considered silent. With fewer, it may only
 * be in a short task.
 */
const SILENT_QUESTIONS = 2;

/** Watches a computing thread from another one, for the pulse. */
export class ThreadWatch {
  #report: ActivityReport = {
    task: '',
    progress: 0,
    ms: 0,
    limitMs: FIRST_THREAD_TASK_LIMIT_MS,
    awaits: [],
    bytes: 0,
    lateMs: 0,
  };
  /**
   * The number of questions without an answer. Questions are counted instead of time, because
   * clocks run on while a machine sleeps.
   */
  #unanswered = 0;
  #isAsked = false;

  /** Bytes of the thread's links, from its latest report. */
  get bytes(): number {
    return this.#report.bytes;
  }

  /** Call this for each message from the thread. Pass the report if the message contains one. */
  heard(report = this.#report): void {
    this.#report = report;
    this.#unanswered = 0;
    this.#isAsked = false;
  }

  /**
   * Returns the pulse. Call it every `intervalMs`, right before the thread is asked for an answer.
   */
  pulse(intervalMs: number): Pulse {
    if (this.#isAsked) this.#unanswered += 1;
    this.#isAsked = true;
    const isSilent = this.#unanswered >= SILENT_QUESTIONS;
    return { ...pulseOfActiveRank(this.#report), isSilent, ...(isSilent && { ms: this.#unanswered * intervalMs }) };
  }
}

/**
 * Returns a channel that carries pulses to the page, because the engine's worker cannot send
 * anything while it computes.
 */
export function pulseChannel(name: string): BroadcastChannel {
  return new BroadcastChannel(`peergrad pulse ${name}`);
}

/** Returns the name of the worker that runs this code; empty on a page. */
export function nameOfThisWorker(): string {
  return 'DedicatedWorkerGlobalScope' in globalThis ? (globalThis as unknown as { name: string }).name : '';
}
