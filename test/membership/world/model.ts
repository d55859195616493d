/** The parts of the modelled world: connections, clients and generations. */
import { electState, type ElectedState } from '../../../src/parallel/recovery/stateElection.ts';
import { currentRetainedGradients, type RetainedGradient } from '../../../src/parallel/recovery/sampleReassignment.ts';
import { step as stepRoom } from '../../../signaling/room/index.ts';
import {
  nextMembership as advanceMember,
  INITIAL_MEMBERSHIP,
  type MembershipState,
} from '../../../src/engine/membership/membership.ts';
import type { ClientMessage, ServerMessage } from '../../../src/protocol/control.ts';
import type { NodeCountRange } from '../../../src/protocol/room.ts';
import type { SampleAssigner, StepAssignment } from '../../../src/engine/training/data/sampleAssigner.ts';
import { Replica, takeOver } from '../replica.ts';

/** The functions under test. A test may replace one of them with a faulty one. */
export interface Parts {
  stepRoom: typeof stepRoom;
  advanceMember: typeof advanceMember;
  electState: typeof electState;
  takeOver: typeof takeOver;
  currentGradients: typeof currentRetainedGradients;
  /** Changes a rank's sample assigner. */
  assigner: (assigner: SampleAssigner) => SampleAssigner;
  /** Whether a step needs the contributions of all ranks. */
  needsAll: boolean;
}
export const REAL_PARTS: Parts = {
  stepRoom,
  advanceMember,
  electState,
  takeOver,
  currentGradients: currentRetainedGradients,
  assigner: (assigner) => assigner,
  needsAll: true,
};

export interface WorldOptions {
  /** Maximum number of clients at the same time. */
  slots: number;
  /** `null` means a fixed world. */
  nodes: NodeCountRange | null;
  startAt: number | null;
  hasRelay: boolean;
}

type Sent = Extract<ClientMessage, { type: 'join' | 'reconnect' }>;
export type ToServer =
  | Exclude<ClientMessage, { type: 'create' | 'join' | 'reconnect' | 'heartbeat' }>
  | Pick<Sent & { type: 'join' }, 'type'>
  | Pick<Sent & { type: 'reconnect' }, 'type' | 'reconnectState'>;
export type ToClient = ServerMessage | { type: 'admitted'; member: string };

/** A WebSocket. Its messages arrive in order, and none is lost while it is open. */
export interface Connection {
  readonly member: string;
  toServer: ToServer[];
  toClient: ToClient[];
  /** Whether the server's end is open. */
  isOpen: boolean;
}

/** Closes the server's end of a connection. */
export function hangUp(connection: Connection): void {
  connection.isOpen = false;
  connection.toServer = [];
}

export interface Client {
  readonly slot: number;
  /** `null` means that the slot has no client now. */
  member: string | null;
  incarnations: number;
  state: MembershipState;
  /** The latest `room` message that the client received. */
  room: Extract<ServerMessage, { type: 'room' }> | null;
  connection: Connection | null;
  isFrozen: boolean;
  /** Whether the client must send `ready`. */
  isDue: boolean;
  /** The generation whose links the client opens, and whether they are open. */
  linking: number;
  isLinked: boolean;
  /** The generation whose process group the client has. */
  active: number;
  /**
   * Progress of entering a generation. 0: the client has sent its status. 1: it has sent what
   * others need. 2: it has the elected state.
   */
  stage: number;
  isTraining: boolean;
  replica: Replica;
  assigner: SampleAssigner | null;
  /** The client's samples of the next step. */
  assignment: StepAssignment | null;
  /**
   * Whether a run continues without this client, in a generation of which it is not a member. Its
   * latest steps may then be undone.
   */
  isBehind: boolean;
}

export function emptySlot(slot: number): Client {
  return {
    slot,
    member: null,
    incarnations: 0,
    state: INITIAL_MEMBERSHIP,
    room: null,
    connection: null,
    isFrozen: false,
    isDue: false,
    linking: 0,
    isLinked: false,
    active: 0,
    stage: 0,
    isTraining: false,
    replica: new Replica(),
    assigner: null,
    assignment: null,
    isBehind: false,
  };
}

/** Removes what a client knows of a run. */
export function forget(client: Client): void {
  Object.assign(client, { replica: new Replica(), assigner: null, assignment: null });
}

/** A generation: its members, and what they exchange. */
export interface Generation {
  readonly run: number;
  readonly ring: readonly string[];
  readonly relayed: readonly (readonly [string, string])[];
  /** By rank. */
  readonly statuses: (Status | null)[];
  /** Result of the election, once all statuses have arrived. */
  comparison: ElectedState | null;
  readonly hasSent: boolean[];
  /** State with which each rank has entered; the index is the rank. */
  readonly entered: (string | null)[];
  /** Contributions of the ranks, by the number of steps that were applied before. */
  readonly contributions: Map<number, ({ samples: number; base: number } | null)[]>;
}

/** Status of a rank that enters a generation. */
export interface Status {
  replica: Replica;
  note: { retained: RetainedGradient | null };
}
