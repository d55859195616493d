/**
 * Random schedules of small actions in a world. A schedule is determined by its seed, and can be
 * repeated from its actions.
 */
import { createRng, mixSeed } from '../../src/util/rng.ts';
import { Violation } from './violation.ts';
import { REAL_PARTS, type Parts, type WorldOptions } from './world/model.ts';
import { World } from './world/world.ts';

/**
 * The name of an action, the slot of its client, and a number that chooses a variant of the action.
 */
export type Action = readonly [name: ActionName, slot: number, x: number];

const PROGRESS = {
  up: (world: World, slot: number) => world.up(slot),
  down: (world: World, slot: number) => world.down(slot),
  ready: (world: World, slot: number) => world.ready(slot),
  return: (world: World, slot: number) => world.return(slot),
  link: (world: World, slot: number) => world.link(slot),
  enter: (world: World, slot: number) => world.enter(slot),
  compute: (world: World, slot: number) => world.compute(slot),
  apply: (world: World, slot: number) => world.apply(slot),
  finish: (world: World, slot: number) => world.finish(slot),
  bury: (world: World, _: number, x: number) => world.bury(x),
};
const PROGRESS_NAMES = Object.keys(PROGRESS) as (keyof typeof PROGRESS)[];

const ACTIONS = {
  ...PROGRESS,
  // In these long stretches one client does nothing, or only one client does something. Random
  // single actions seldom lead to such stretches.
  without: (world: World, slot: number, x: number) => makeProgress(world, 1 + (x % STRETCH), (other) => other !== slot),
  alone: (world: World, slot: number, x: number) => makeProgress(world, 1 + (x % STRETCH), (other) => other === slot),
  join: (world: World, slot: number) => world.join(slot),
  start: (world: World, slot: number) => world.start(slot),
  stall: (world: World, slot: number, x: number) => world.stall(slot, x),
  slow: (world: World, slot: number) => world.slow(slot),
  fire: (world: World, _: number, x: number) => world.server.fire(x),
  drop: (world: World, slot: number, x: number) => world.drop(slot, x),
  cutOff: (world: World, slot: number, x: number) => world.cutOff(slot, x),
  crash: (world: World, slot: number) => world.crash(slot),
  leave: (world: World, slot: number) => world.leave(slot),
  freeze: (world: World, slot: number) => world.freeze(slot),
  thaw: (world: World, slot: number) => world.thaw(slot),
  silence: (world: World, slot: number) => world.silence(slot),
  cut: (world: World, _: number, x: number) => world.cut(x),
  fail: (world: World, slot: number, x: number) => world.fail(slot, x),
  stop: (world: World, slot: number) => world.stop(slot),
  pause: (world: World, slot: number) => world.pause(slot),
  resume: (world: World, slot: number) => world.resume(slot),
  remove: (world: World, slot: number, x: number) => world.remove(slot, x),
  restart: (world: World) => world.restart(),
  repeat: (world: World, slot: number, x: number) => world.repeat(slot, x),
  disturb: (world: World, slot: number, x: number) => world.disturb(slot, x),
};
type ActionName = keyof typeof ACTIONS;

/**
 * Weight of each action: how often it is tried. Actions that make progress have the highest
 * weights.
 */
const WEIGHTS: Record<ActionName, number> = {
  up: 14,
  down: 14,
  ready: 8,
  return: 9,
  link: 9,
  enter: 12,
  compute: 9,
  apply: 7,
  finish: 3,
  bury: 5,
  without: 14,
  alone: 4,
  join: 10,
  start: 4,
  stall: 9,
  slow: 14,
  fire: 9,
  drop: 4,
  cutOff: 4,
  crash: 2,
  leave: 1,
  freeze: 3,
  thaw: 5,
  silence: 4,
  cut: 1,
  fail: 2,
  stop: 0,
  remove: 0,
  pause: 2,
  resume: 3,
  restart: 1,
  repeat: 3,
  disturb: 0,
};
/**
 * Additional weights in a few schedules. These actions would end most schedules early if all
 * schedules had them.
 */
const RARE: Partial<Record<ActionName, number>> = { stop: 2, remove: 2, leave: 4, fail: 4 };
/** Additional weights for an unreliable network. */
const PATCHY: Partial<Record<ActionName, number>> = { cut: 6, stall: 24 };
/** Additional weights for faults that do not occur with a WebSocket. */
const LOSSY: Partial<Record<ActionName, number>> = { disturb: 8 };

/** Returns a list that contains every action as often as its weight. */
const lottery = (more: Partial<Record<ActionName, number>>): ActionName[] =>
  (Object.keys(WEIGHTS) as ActionName[]).flatMap((name) =>
    Array.from({ length: WEIGHTS[name] + (more[name] ?? 0) }, () => name),
  );
const LOTTERIES = [lottery({}), lottery({}), lottery({}), lottery(RARE), lottery(PATCHY), lottery(LOSSY)];

/** Possible rooms of a schedule. */
const ROOMS: readonly WorldOptions[] = [
  { slots: 3, nodes: { min: 1, max: 3 }, startAt: 2, hasRelay: false },
  { slots: 3, nodes: { min: 1, max: 3 }, startAt: null, hasRelay: true },
  { slots: 3, nodes: { min: 2, max: 3 }, startAt: 2, hasRelay: false },
  { slots: 3, nodes: { min: 1, max: 2 }, startAt: null, hasRelay: false },
  { slots: 3, nodes: null, startAt: 2, hasRelay: false },
  { slots: 3, nodes: { min: 2, max: 2 }, startAt: 1, hasRelay: false },
  // A ring of four is the smallest ring that can have different orders.
  { slots: 4, nodes: { min: 1, max: 4 }, startAt: 4, hasRelay: false },
];

/** Maximum number of actions in a stretch in which one client is left out or alone. */
const STRETCH = 16;
/** Maximum number of stretches without faults at the beginning of a schedule. */
const CALM = 3;
/**
 * Maximum number of actions, including faults, that are tried after these stretches. About half of
 * them are possible.
 */
const TRIES = 60;
/**
 * Number of bursts of actions after the last fault in which a schedule must finish. Some schedules
 * need 60.
 */
const REST = 1000;

export interface Outcome {
  options: WorldOptions;
  actions: Action[];
  /**
   * Number of actions between two firings of the timer that adds newcomers, after the last fault.
   */
  burst: number;
  violation: Violation | null;
  world: World;
}

/**
 * Performs up to `limit` actions that make progress, one after another for each client. Returns
 * whether any action was possible.
 */
function makeProgress(world: World, limit: number, isOne: (slot: number) => boolean = () => true): boolean {
  let left = limit;
  for (let moved = true; moved && left > 0;) {
    moved = false;
    for (const name of PROGRESS_NAMES) {
      for (let slot = 0; slot < world.clients.length && left > 0; slot++) {
        if (!isOne(slot) || !PROGRESS[name](world, slot, 0)) continue;
        moved = true;
        left--;
      }
    }
  }
  return left < limit;
}

/**
 * Stops all faults. Then the world must reach a state without further actions, and no client may
 * still wait.
 */
function comeToRest(world: World, burst: number): void {
  world.heal();
  for (let bursts = 0; bursts < REST; bursts++) {
    // In this way, newcomers are added in the middle of other actions.
    if (makeProgress(world, burst)) {
      world.server.grow();
      continue;
    }
    // First the clients notice missing peers, then the host resumes the run, then the next timer
    // fires.
    const slots = [...world.clients.keys()];
    const isNoticed = slots.some((slot) => world.stall(slot, 1)) || slots.some((slot) => world.resume(slot));
    if (!isNoticed && !world.server.fireNext()) {
      const waiting = world.unfinished();
      if (waiting !== null && !world.isLossy) throw new Violation('I7', waiting);
      return;
    }
  }
  // A member that has missed a message may repeat its request forever. No WebSocket loses messages,
  // so this is an error only without losses.
  if (!world.isLossy) throw new Violation('I7', 'the world never reaches a state without further actions');
}

/** Plays the schedule of a seed. */
export function playSeed(seed: number, parts: Parts = REAL_PARTS): Outcome {
  const rng = createRng(mixSeed(seed));
  const room = ROOMS[rng.below(ROOMS.length)]!;
  const { slots } = room;
  return play(room, 6 + rng.below(40), parts, (perform) => {
    // The number of clients that join is at least the number that a run needs in order to start by
    // itself.
    for (let slot = Math.max((room.startAt ?? 0) - 1, 1 + rng.below(slots - 1)); slot >= 0; slot--) {
      perform(['join', slot, 0]);
      perform(['without', slots, STRETCH - 1]);
    }
    perform(['start', 0, 0]);
    for (let stretches = rng.below(CALM); stretches > 0; stretches--) perform(['without', slots, rng.below(256)]);
    const names = LOTTERIES[rng.below(LOTTERIES.length)]!;
    for (let tries = rng.below(TRIES); tries > 0; tries--) {
      perform([names[rng.below(names.length)]!, rng.below(slots), rng.below(256)]);
    }
  });
}

/** Plays a schedule again from its actions. Impossible actions are skipped. */
export function playActions(like: Outcome, actions: readonly Action[], parts: Parts = REAL_PARTS): Outcome {
  return play(like.options, like.burst, parts, (perform) => actions.forEach(perform));
}

function play(
  options: WorldOptions,
  burst: number,
  parts: Parts,
  script: (perform: (action: Action) => void) => void,
): Outcome {
  const world = new World(options, parts);
  const outcome: Outcome = { options, actions: [], burst, violation: null, world };
  try {
    script((action) => {
      const [name, slot, x] = action;
      outcome.actions.push(action);
      if (!ACTIONS[name](world, slot, x)) outcome.actions.pop();
    });
    comeToRest(world, burst);
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    outcome.violation = error;
  }
  return outcome;
}

/** Shortens a failing schedule as long as it still breaks the same invariant. */
export function shrink(failing: Outcome, parts: Parts = REAL_PARTS): Outcome {
  const invariant = failing.violation?.invariant;
  let best = failing;
  for (let size = best.actions.length >> 1; size > 0; size = size === 1 ? 0 : (size + 1) >> 1) {
    for (let at = 0; at < best.actions.length;) {
      const fewer = [...best.actions.slice(0, at), ...best.actions.slice(at + size)];
      const outcome = playActions(failing, fewer, parts);
      if (outcome.violation?.invariant === invariant) best = outcome;
      else at += size;
    }
  }
  return best;
}

/** Describes the broken invariant and the actions that lead to it. */
export function describeFailure(seed: number, { options, actions, burst, violation }: Outcome): string {
  const events = actions.map(([name, slot, x]) => `${name} ${slot} ${x}`).join(', ');
  return `seed ${seed}: ${violation?.message}\n  room ${JSON.stringify(options)}, bursts of ${burst}\n  ${events}`;
}
