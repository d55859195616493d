/** Compares values in the tables of docs/LIMITS.md with the constants that set them. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { PROCESS_WINDOW_BYTES } from '../signaling/cluster/peerProcess.ts';
import { DEFAULT_LIMITS as SERVER, MAX_ADDRESSES } from '../signaling/limits.ts';
import { MIN_CHARGED_MESSAGE_BYTES } from '../src/protocol/serverLink.ts';
import { MIN_BYTES_PER_SECOND } from '../signaling/links/sharedRate.ts';
import { MAX_OP_ELEMENTS, MAX_TAG } from '../src/collectives/diagnostics/descriptor.ts';
import { MAX_BYTES_BEFORE_READY } from '../src/collectives/inFlightOp.ts';
import {
  MAX_UNEXPECTED_COLLECTIVE_BYTES as COLLECTIVES,
  MAX_UNEXPECTED_MESSAGE_BYTES as MESSAGES,
} from '../src/collectives/unexpectedMessages.ts';
import { CHECKPOINTS_KEPT } from '../src/engine/storage/checkpoints.ts';
import { BUCKET_CAP_BYTES, FIRST_BUCKET_BYTES } from '../src/parallel/flat/buckets.ts';
import { MIRROR_SHARDS_EVERY_STEPS } from '../src/parallel/zero/shardedOptimizer.ts';
import { MAX_CLASS_NAME_LENGTH, MAX_CONFUSED_CLASSES } from '../src/protocol/confusion.ts';
import { MAX_CONTROL_BYTES } from '../src/protocol/control.ts';
import { MAX_FRAME_BYTES } from '../src/protocol/frame.ts';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import { MAX_FILE_NAME_LENGTH, MAX_SHARED_BYTES, MAX_SHARED_FILES } from '../src/spec/fileManifest.ts';
import { TAB_MEMORY_BYTES } from '../src/spec/pipeline.ts';
import {
  DATA_CHANNEL_WINDOW,
  maxWaitingFrames,
  SERVER_LINK_WINDOW,
  type FrameWindowSize,
} from '../src/transport/frameOrder.ts';
import { HIGH_WATER_BYTES } from '../src/transport/link.ts';
import { MAX_EARLY_BYTES } from '../src/transport/linkAcrossGenerations.ts';
import { FIRST_THREAD_TASK_LIMIT_MS, MIN_THREAD_TASK_LIMIT_MS, MAX_AWAITED_RANKS } from '../src/util/activity.ts';

const PAGE = readFileSync(path.resolve(import.meta.dirname, '../docs/LIMITS.md'), 'utf8');

/** The cell with the value, by the cell before it. */
const VALUES = new Map(
  PAGE.split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) => {
      const [what, value] = line.slice(1).split('|');
      return [what!.trim(), value!.trim()];
    }),
);

/** Writes a number with spaces between groups of three digits, if it has at least five. */
const grouped = (value: number): string =>
  value < 10_000 ? String(value) : String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ' ');
const kib = (bytes: number): string => `${bytes / 2 ** 10} KiB`;
const mib = (bytes: number): string => `${bytes / 2 ** 20} MiB`;
const windowOf = (size: FrameWindowSize): string =>
  `${mib(size.bytes)}, so ${grouped(maxWaitingFrames(size))} frames; ${size.block < 2 ** 20 ? kib(size.block) : mib(size.block)}`;
const seconds = (ms: number): string => `${ms / 1000} s`;

test.each([
  ['ranks of a world', grouped(MAX_WORLD_SIZE)],
  ['frame, including the header of 32 bytes', kib(MAX_FRAME_BYTES)],
  ['control message: a `reconnect` lists all ranks', kib(MAX_CONTROL_BYTES)],
  ['bytes queued in a link before `send` waits', mib(HIGH_WATER_BYTES)],
  [
    'frames of a link on their way, or waiting for an earlier one of another connection, each with 2 KiB more; acknowledged each',
    windowOf(DATA_CHANNEL_WINDOW),
  ],
  ['the same, for a link through the server', windowOf(SERVER_LINK_WINDOW)],
  ['frames of a member kept for a later generation', kib(MAX_EARLY_BYTES)],
  ['bytes of an op sent to a rank that has not issued it', kib(MAX_BYTES_BEFORE_READY)],
  [
    'unexpected frames of one rank over all groups: of collectives, of messages; more for each further common group, up to three',
    `${mib(COLLECTIVES.oneGroup)}, ${mib(COLLECTIVES.furtherGroup)}; ${mib(MESSAGES.oneGroup)}, ${mib(MESSAGES.furtherGroup)}`,
  ],
  ["elements of one collective or message, all ranks' parts together", grouped(MAX_OP_ELEMENTS)],
  ['largest tag of a message', grouped(MAX_TAG)],
  ['first bucket *; further buckets *', `${kib(FIRST_BUCKET_BYTES)}; ${kib(BUCKET_CAP_BYTES)}`],
  ["steps between two copies of a shard's averages to the next rank", grouped(MIRROR_SHARDS_EVERY_STEPS)],
  [
    'shared files: total size, number, length of a name',
    `${MAX_SHARED_BYTES / 2 ** 30} GiB, ${MAX_SHARED_FILES}, ${MAX_FILE_NAME_LENGTH} characters`,
  ],
  ['memory of a tab for weights, gradients and averages, with a pipeline', `${TAB_MEMORY_BYTES / 1e9} GB`],
  ['classes of a confusion table; characters of their names', `${MAX_CONFUSED_CLASSES}; ${MAX_CLASS_NAME_LENGTH}`],
  ['checkpoints that a browser keeps of one job in one room', grouped(CHECKPOINTS_KEPT)],
  ['ranks that a heartbeat names as awaited', grouped(MAX_AWAITED_RANKS)],
  [
    'a task of a rank without progress: times its longest so far; at least; if it was never completed, or has no name',
    `8; ${seconds(MIN_THREAD_TASK_LIMIT_MS)}; ${FIRST_THREAD_TASK_LIMIT_MS / 60_000} min`,
  ],
  ['first message', `within ${seconds(SERVER.firstMessageMs)}`],
  ['unsent bytes to a slow reader before it is closed', mib(SERVER.maxUnsentBytes)],
  ['addresses remembered for each of these, and for each of the rates below', grouped(MAX_ADDRESSES)],
  ['sockets of one address (IPv6: one /64)', grouped(SERVER.socketsPerAddress)],
  ['rooms that tabs of one address open', `${SERVER.roomsPerMinute} a minute, ${SERVER.roomBurst} at once`],
  [
    'rooms; members in a room; spectators in a room',
    `${SERVER.maxRooms}; ${SERVER.roomCapacity}; ${SERVER.spectatorCapacity}`,
  ],
  [
    'spectator updates of one connection that are forwarded',
    `${SERVER.updatesPerSecond}/s, ${SERVER.updateBurst} at once; others are dropped`,
  ],
  ['an empty room that a tab opened; less if rooms run out', seconds(SERVER.emptyRoomMs)],
  ['closing', seconds(SERVER.closeGraceMs)],
  [
    'first message of a socket of a link; after it, the other end of the link',
    `within ${seconds(SERVER.linkOpeningMs)}`,
  ],
  [
    "sockets of a member's links: two for each possible peer; to the same peer",
    `${grouped(SERVER.linksPerMember)}; ${SERVER.linksPerPair}`,
  ],
  [
    'a message of a link counts as at least, in the rate and while it waits',
    `${kib(MIN_CHARGED_MESSAGE_BYTES)} (\`signaling/links\`)`,
  ],
  [
    'bytes that wait for one end of a link before the server stops to read from the other end, until a quarter is left',
    mib(SERVER.linkBytes),
  ],
  [
    'bytes that wait for the ends of all links, before it reads from an end only when nothing waits for the other one, in rooms with more than an equal share; before the link with most ends',
    `${mib(SERVER.allLinksBytes)}; ${mib(SERVER.maxAllLinksBytes)}`,
  ],
  [
    'pings to an end of a link; an end that answers none, or takes no bytes that wait for it, before the link ends',
    `${seconds(SERVER.linkPingMs)}; ${SERVER.linkSilentMs / 60_000} min`,
  ],
  [
    'bytes that all links forward * (`--server-links-rate`), at least',
    `${SERVER.serverLinksBytesPerSecond / 1e6} MB/s, ${MIN_BYTES_PER_SECOND / 1e6} MB/s`,
  ],
  [
    'frames of all links on their way from one process to another; acknowledged each; a shorter message of a link counts as',
    `${mib(PROCESS_WINDOW_BYTES)}; ${kib(PROCESS_WINDOW_BYTES / 4)}; ${kib(MIN_CHARGED_MESSAGE_BYTES)}`,
  ],
])('docs/LIMITS.md has the value in the source for: %s', (what, value) => {
  expect(VALUES.get(what)).toBe(value);
});
