/** The checks before joining, as a list that fills in. */
import { useSignal, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { checkGpu, checkReach, checkSecure, type Verdict } from '../preflight.ts';

const ICONS = { checking: '…', good: '✓', meh: '!', bad: '✕' } as const;
const MOODS = { checking: 'dim', good: 'good', meh: 'wait', bad: 'wrong' } as const;
const SAID = { checking: '', good: 'good: ', meh: 'slower: ', bad: 'problem: ' } as const;

/** @param blocked set to whether something stands in the way of joining. */
export function Preflight({ blocked }: { blocked: Signal<boolean> }) {
  const secure = checkSecure();
  const gpu = useSignal<Verdict>({ kind: 'checking' });
  const reach = useSignal<Verdict>({ kind: 'checking' });
  useEffect(() => {
    let gone = false;
    const tell = (verdict: Signal<Verdict>) => (found: Verdict) => {
      if (!gone) verdict.value = found;
    };
    void checkGpu().then(tell(gpu));
    void checkReach().then(tell(reach));
    return () => {
      gone = true;
    };
  }, [gpu, reach]);
  useEffect(() => {
    blocked.value = reach.value.kind === 'bad';
  }, [blocked, reach.value.kind]);
  return (
    <ul class="checks plain" aria-label="What this tab can do">
      <Check verdict={secure} name="secure page" />
      <Check verdict={gpu.value} name="GPU" />
      <Check verdict={reach.value} name="reaching others" />
    </ul>
  );
}

function Check({ verdict, name }: { verdict: Verdict; name: string }) {
  const checking = verdict.kind === 'checking';
  return (
    <li>
      <span class={`check-icon ${MOODS[verdict.kind]}`} aria-hidden="true">
        {ICONS[verdict.kind]}
      </span>
      <span class={checking ? 'dim' : ''}>
        <span class="away">{SAID[verdict.kind]}</span>
        {checking ? `${name}: checking` : verdict.text}
        {'fix' in verdict && <small class="dim">{verdict.fix}</small>}
      </span>
    </li>
  );
}
