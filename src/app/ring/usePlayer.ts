/** A player for as long as a page shows it, with its keys: Space plays and pauses, the arrows step. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { reducedMotion } from '../env.ts';
import { computesOnCpu } from '../store.ts';
import { createPlayer, type Player, type Stage } from './player.ts';

/** @param newest what to play; a new object only when it is new. */
export function usePlayer(newest: Stage | null, options: { autoplay: boolean; keys: boolean }): Player {
  const source = useSignal<Stage | null>(newest);
  const { autoplay, keys } = options;
  const player = useMemo(
    () => createPlayer(source, { autoplay, reducedMotion, thrifty: computesOnCpu }),
    [source, autoplay],
  );
  useEffect(() => {
    source.value = newest;
  }, [source, newest]);
  useEffect(() => {
    const onkey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isForSomethingElse(event.target)) return;
      if (event.key === ' ') player.toggle();
      else if (event.key === 'ArrowLeft') player.stepBy(-1);
      else if (event.key === 'ArrowRight') player.stepBy(1);
      else return;
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

/** Controls have their own use for these keys. */
function isForSomethingElse(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('input, select, textarea, button, summary, a, dialog') !== null;
}
