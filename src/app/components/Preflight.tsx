/** Shows the checks before joining as a list. Each result appears when its check ends. */
import { useSignal, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { checkGpu, checkPeersAreReachable, checkSecureContext, type PreflightVerdict } from './preflight.ts';
import { uiMessages } from '../locales/index.ts';

const ICONS = { checking: '…', good: '✓', meh: '!', bad: '✕' } as const;
const MOODS = { checking: 'dim', good: 'good', meh: 'wait', bad: 'wrong' } as const;

/** @param blocked is set to `true` while a check forbids joining, otherwise to `false`. */
export function Preflight({ blocked }: { blocked: Signal<boolean> }) {
  const { checks } = uiMessages.value.join;
  const secure = checkSecureContext();
  const gpu = useSignal<PreflightVerdict>({ kind: 'checking' });
  const reach = useSignal<PreflightVerdict>({ kind: 'checking' });
  useEffect(() => {
    let gone = false;
    const show = (verdict: Signal<PreflightVerdict>) => (found: PreflightVerdict) => {
      if (!gone) verdict.value = found;
    };
    void checkGpu().then(show(gpu));
    void checkPeersAreReachable().then(show(reach));
    return () => {
      gone = true;
    };
    // The results are texts, so the checks run again when the language (`checks`) changes.
  }, [gpu, reach, checks]);
  useEffect(() => {
    blocked.value = reach.value.kind === 'bad';
  }, [blocked, reach.value.kind]);
  return (
    <ul class="checks plain" aria-label={checks.title}>
      <Check verdict={secure} name={checks.names.secure} />
      <Check verdict={gpu.value} name={checks.names.gpu} />
      <Check verdict={reach.value} name={checks.names.reach} />
    </ul>
  );
}

function Check({ verdict, name }: { verdict: PreflightVerdict; name: string }) {
  const { checks } = uiMessages.value.join;
  const checking = verdict.kind === 'checking';
  return (
    <li>
      <span class={`check-icon ${MOODS[verdict.kind]}`} aria-hidden="true">
        {ICONS[verdict.kind]}
      </span>
      <span class={checking ? 'dim' : ''}>
        <span class="away">{checks.verdicts[verdict.kind]}</span>
        {checking ? checks.checking(name) : verdict.text}
        {'fix' in verdict && <small class="dim">{verdict.fix}</small>}
      </span>
    </li>
  );
}
