/** The members and the settings of a room, as control messages and events have them. */
import * as v from 'valibot';
import { JobSpec } from '../spec/job.ts';
import { count, displayName, MAX_WORLD_SIZE, memberId, ordinal, rank, secret, text, worldSize } from './scalars.ts';

/**
 * How many ranks a run may have, like torchrun's `--nnodes MIN:MAX`: below `min` it pauses, beyond
 * `max` members wait.
 */
export const Nodes = v.pipe(
  v.strictObject({ min: worldSize, max: worldSize }),
  v.check(({ min, max }) => min <= max, 'min must not be above max'),
);
export type Nodes = v.InferOutput<typeof Nodes>;

/** Optional statements of a newcomer beside its name. */
export const newcomer = {
  name: displayName,
  /**
   * Random, the same in all tabs of a browser's profile, so that a rank can know which of them it
   * is. Told to the server only: the others see a number.
   */
  browser: v.optional(v.pipe(v.string(), v.regex(/^[\w-]{16,64}$/))),
  /** The requested rank; without it, any rank that no other member has requested. */
  rank: v.optional(rank),
  /** Whether it only watches: it never trains, and needs neither a device nor links. */
  isSpectator: v.optional(v.boolean()),
};
/** How a tab computes: TensorFlow.js's backend, and the browser's name of the adapter. */
export const Device = v.strictObject({ backend: v.picklist(['webgpu', 'webgl', 'wasm', 'cpu']), adapter: text(200) });
export type Device = v.InferOutput<typeof Device>;

export const RosterEntry = v.strictObject({
  member: memberId,
  name: displayName,
  /** `null` until the member is ready. */
  device: v.nullable(Device),
  /**
   * Members with the same number are tabs of one browser. The number means nothing outside of this
   * room.
   */
  browser: count,
  /** The requested rank; `null`: any. */
  rank: v.nullable(rank),
});
export type RosterEntry = v.InferOutput<typeof RosterEntry>;

/** A member of the room that only watches. */
export const Spectator = v.strictObject({ member: memberId, name: displayName });
export type Spectator = v.InferOutput<typeof Spectator>;

/** Members in ring order. */
export const ring = v.pipe(
  v.array(RosterEntry),
  v.minLength(1),
  v.maxLength(MAX_WORLD_SIZE),
  v.check((ranks) => new Set(ranks.map(({ member }) => member)).size === ranks.length, 'a member is there twice'),
);

export const ROOM_PHASES = ['FORMING', 'LINKING', 'SYNCING', 'RUNNING', 'PAUSED'] as const;
export type RoomPhase = (typeof ROOM_PHASES)[number];

/** Members that a host has sent out, the latest. */
export const Removed = v.strictObject({
  members: v.pipe(v.array(memberId), v.maxLength(MAX_WORLD_SIZE)),
  /** The server's signature: it believes no member that another was sent out. */
  seal: secret,
});

/** How a room is set up: a server that has restarted learns it from the members. */
export const RoomSettings = v.strictObject({
  job: JobSpec,
  /**
   * Start without the host once this many members are ready: the room's world size; `null`: the
   * host starts. It is `null` after such a start, too, until members have left.
   */
  startAt: v.nullable(worldSize),
  /**
   * How many ranks a run may have. `null`: the world is fixed, and a run ends when one of its ranks
   * leaves.
   */
  nodes: v.nullable(Nodes),
  isLocked: v.boolean(),
  /** The host has paused the run: the room is PAUSED until the host resumes it. */
  isPausedByHost: v.boolean(),
});
export type RoomSettings = v.InferOutput<typeof RoomSettings>;

/** The settings that a room is opened with. */
export const RoomOpening = v.pick(RoomSettings, ['job', 'startAt', 'nodes']);
export type RoomOpening = v.InferOutput<typeof RoomOpening>;

/** The settings in a room's state or in a message about it. */
export function settingsOf(room: Readonly<RoomSettings>): RoomSettings {
  const names = Object.keys(RoomSettings.entries) as (keyof RoomSettings)[];
  return Object.fromEntries(names.map((name) => [name, room[name]])) as RoomSettings;
}

/** The run and the generation of a member that reconnects. */
export const ReconnectState = v.strictObject({
  settings: v.strictObject({ ...RoomSettings.entries, removed: v.optional(Removed) }),
  /** The latest run that it knows, from `prepare`, `pause` or `room`; 0: none. */
  run: ordinal,
  /** Whether that run was going on when it was last informed. */
  isRunOn: v.boolean(),
  /** Highest generation that it knows, from `prepare` or `room`; 0: none. */
  generation: ordinal,
  /**
   * The generation it is in; `null`: none. `isSteady`: it trains there, without needing the server.
   */
  active: v.nullable(v.strictObject({ generation: ordinal, ring, isSteady: v.boolean() })),
});
export type ReconnectState = v.InferOutput<typeof ReconnectState>;
