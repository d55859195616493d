/** Hooks that create the player of a page, with its keys and the speed in the address. */
import { useComputed, useSignal, type ReadonlySignal } from '@preact/signals';
import { useLayoutEffect, useMemo } from 'preact/hooks';
import { reducedMotion } from '../../browser/env.ts';
import { pageRoute } from '../../state/address.ts';
import { computesOnCpu } from '../../state/publishedView.ts';
import type { Playback, PlayerOptions } from './playback.ts';
import { createRingPlayer, type RingPlayer, type PlayedRound } from './player.ts';
import { nextPlaybackSpeed, playbackSpeedForAddress, playbackSpeedFromQuery } from './speed.ts';
import { useSettingsInAddress } from './useSettingsInAddress.ts';

interface Options {
  autoplay: boolean;
  /** Whether keys control the player. */
  keys: boolean;
}

/** @param newest the newest trace. It must be the same object until there is a new trace. */
export function useRingPlayer(newest: PlayedRound | null, options: Options): RingPlayer {
  return usePlayback(newest, createRingPlayer, options);
}

/** @param newest what is played next. It must be the same object until it changes. */
export function usePlayback<Played, P extends Playback>(
  newest: Played | null,
  create: (newest: ReadonlySignal<Played | null>, options: PlayerOptions) => P,
  { autoplay, keys }: Options,
): P {
  const source = useSignal<Played | null>(newest);
  const player = useMemo(
    () => create(source, { autoplay, reducedMotion, thrifty: computesOnCpu }),
    [source, create, autoplay],
  );
  useLayoutEffect(() => {
    source.value = newest;
  }, [source, newest]);
  const asked = playbackSpeedFromQuery(pageRoute.value.query);
  useLayoutEffect(() => {
    player.speed.value = asked;
  }, [player, asked]);
  useSettingsInAddress(useComputed(() => ({ speed: playbackSpeedForAddress(player.speed.value) })));
  // A user may press a key as soon as the page is painted. Therefore the key handler is installed
  // in a layout effect, which runs before that.
  useLayoutEffect(() => {
    const onkey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isForSomethingElse(event.target) || !press(player, event.key)) return;
      event.preventDefault();
    };
    if (keys) addEventListener('keydown', onkey);
    return () => {
      removeEventListener('keydown', onkey);
      player.dispose();
    };
  }, [player, keys]);
  return player;
}

/** Applies a key to the player. Returns whether the player uses this key. */
function press(player: Playback, key: string): boolean {
  switch (key) {
    case ' ':
      player.toggle();
      return true;
    case 'ArrowLeft':
      player.stepBy(-1);
      return true;
    case 'ArrowRight':
      player.stepBy(1);
      return true;
    case 'Home':
      player.restart();
      return true;
    case 'End':
      player.seek(1);
      return true;
    case '[':
    case '-':
      player.speed.value = nextPlaybackSpeed(player.speed.peek(), -1);
      return true;
    case ']':
    case '+':
      player.speed.value = nextPlaybackSpeed(player.speed.peek(), 1);
      return true;
    default:
      return false;
  }
}

/** Returns whether the key was pressed in a control that uses such keys itself. */
function isForSomethingElse(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('input, select, textarea, button, summary, a, dialog') !== null;
}
