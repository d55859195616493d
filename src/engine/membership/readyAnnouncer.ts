/**
 * Announces to the server that this rank is ready. A newcomer that lacks much of the run's state
 * asks for a feeder first, and is ready when it has received enough, when no feeder helps, or when
 * the run is paused.
 */
import { FEEDER_RANK, type NewcomerHooks } from '../../parallel/recovery/stateFeed.ts';
import type { ClientMessage, RoomMessage } from '../../protocol/control.ts';
import type { ReportedDevice } from '../../protocol/room.ts';
import type { Clock } from '../../util/clock.ts';
import type { Generation } from './generation.ts';

/**
 * Milliseconds between the failure of a feed and the next request. While the network is broken,
 * every attempt fails.
 */
const FEED_RETRY_MS = 1_000;
/** After this many feeders in a row that sent nothing, a newcomer takes part without a feed. */
const MAX_FEEDERS = 3;

/** A rank that can train. */
export interface ReadyRank {
  readonly device: ReportedDevice;
  /** The run whose state this rank has. */
  readonly stateOfRun: number | null;
  /** Whether the others would have to wait until this rank has received the run's present state. */
  readonly isBehind: boolean;
}

type ReadyMessage = Extract<ClientMessage, { type: 'ready' }>;

/** Set while this rank receives the state of the run and the other ranks train. */
interface CatchUp {
  readonly rank: ReadyRank;
  /** Feeders that this rank could not reach, or that have sent nothing. */
  avoids: readonly string[];
}

export class ReadyAnnouncer {
  readonly #clock: Clock;
  readonly #send: (message: ReadyMessage) => void;
  #catchUp: CatchUp | null = null;
  /** Number of announcements that were made or forgotten. */
  #changes = 0;
  /**
   * The latest feeder of this rank, and whether it has sent a part of the state since the latest
   * request. It may still have the copy of the state that it sent.
   */
  #feeder: { readonly member: string; hasSent: boolean } | null = null;

  constructor(clock: Clock, send: (message: ReadyMessage) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  announce(rank: ReadyRank): void {
    this.#changes++;
    this.#catchUp = { rank, avoids: [] };
    if (rank.isBehind) this.#ask(this.#catchUp);
    else this.#becomeReady();
  }

  /** Announces the rank when `freed` resolves, unless it is announced again or forgotten before. */
  async announceAfter(freed: Promise<void>, rank: () => ReadyRank): Promise<void> {
    const before = this.#changes;
    await freed;
    if (this.#changes === before) this.announce(rank());
  }

  /** Forgets what was announced. The rank no longer asks for feeders. */
  forget(): void {
    this.#changes++;
    this.#catchUp = null;
  }

  /** Call it for each message about the room. */
  follow(room: RoomMessage, member: string): void {
    if (isCountedReady(room, member)) this.forget();
    // The other ranks wait anyway, so this rank takes part even without the whole state.
    if (room.phase === 'PAUSED') this.#becomeReady();
  }

  /** Call it when a feed of this rank begins. */
  fed({ rank, members }: Generation): NewcomerHooks {
    const feeder = { member: members[FEEDER_RANK]!.member, hasSent: false };
    if (rank !== FEEDER_RANK) this.#feeder = feeder;
    return { onbytes: () => (feeder.hasSent = true), onnear: () => this.#becomeReady() };
  }

  /** Call it when this newcomer's feed has failed. Asks for a feeder again after a moment. */
  unfed(feeder: string): void {
    const catchUp = this.#catchUp;
    const hasSent = this.#feeder?.member === feeder && this.#feeder.hasSent;
    this.#clock.after(FEED_RETRY_MS, () => {
      if (catchUp === null || this.#catchUp !== catchUp) return;
      catchUp.avoids = hasSent ? [] : [...catchUp.avoids, feeder];
      if (catchUp.avoids.length < MAX_FEEDERS) this.#ask(catchUp);
      else this.#becomeReady();
    });
  }

  /** If there is no feeder or no run trains, the server counts this rank as ready. */
  #ask({ rank: { device, stateOfRun }, avoids }: CatchUp): void {
    if (this.#feeder !== null) this.#feeder.hasSent = false;
    const catchUp = { prefers: this.#feeder?.member ?? null, avoids: [...avoids] };
    this.#send({ type: 'ready', device, stateOfRun, catchUp });
  }

  #becomeReady(): void {
    if (this.#catchUp === null) return;
    const { device, stateOfRun } = this.#catchUp.rank;
    this.#catchUp = null;
    this.#send({ type: 'ready', device, stateOfRun });
  }
}

/** Returns whether the room counts `member` as ready. */
export function isCountedReady(room: Pick<RoomMessage, 'members'> | null, member: string): boolean {
  return room?.members.some((one) => one.member === member && one.device !== null) ?? false;
}
