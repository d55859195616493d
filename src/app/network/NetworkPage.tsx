/** The page that checks the network before a lesson. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { networkAdviceFor } from './advice.ts';
import { createPageNetworkCheck } from '../../engine/networkCheck/page.ts';
import { NETWORK_ADVICE, type NetworkReport } from '../../protocol/networkCheck.ts';
import { isLocalOnlyHost } from '../../util/localHost.ts';
import { loadReachableServerOrigins, reachableServerOrigins } from '../browser/serverData.ts';
import { LocalNetworkNote } from '../components/LocalNetworkNote.tsx';
import { uiMessages } from '../locales/index.ts';
import { pageRoute } from '../state/address.ts';
import { browserAndSystemName } from './deviceName.ts';
import { networkAdviceText, networkCheckRowsOf, type NetworkCheckRow } from './rows.ts';

const ICONS = { running: '…', works: '✓', fails: '✕', 'not-tried': '–' } as const;
const MOODS = { running: 'dim', works: 'good', fails: 'wrong', 'not-tried': 'dim' } as const;

export function NetworkPage() {
  const labels = uiMessages.value.network;
  const report = useSignal<NetworkReport | null>(null);
  const attempt = useSignal(0);
  useEffect(() => {
    const check = createPageNetworkCheck({
      server: location.origin,
      name: pageRoute.peek().name ?? browserAndSystemName(navigator.userAgent),
      onreport: (latest) => {
        report.value = latest;
        const advice = networkAdviceFor(latest);
        const [rows, text] = [networkCheckRowsOf(latest), networkAdviceText(advice, latest)];
        globalThis.peergradReport?.({ type: 'network-check', report: latest, advice, rows, text });
      },
    });
    void check.run();
    return () => check.close();
  }, [attempt.value, report]);
  const isLocal = isLocalOnlyHost(location.hostname);
  useEffect(() => {
    if (isLocal) void loadReachableServerOrigins();
  }, [isLocal]);
  const [origin = location.origin] = isLocal ? reachableServerOrigins.value : [];
  const latest = report.value;
  const advice = latest === null ? 'wait' : networkAdviceFor(latest);
  const isDirectFailing = latest?.pairs.some(({ direct }) => direct.verdict === 'fails') ?? false;
  return (
    <main class="network wrap">
      <h1 class="page-title">{labels.title}</h1>
      <p class="measure">{labels.lead}</p>
      <p class="small">
        <span class="dim">{labels.address}</span> <span class="link">{`${origin}${location.pathname}#network`}</span>
      </p>
      <p class={`measure network-advice ${MOOD_OF[String(NETWORK_ADVICE[advice])]}`} role="status">
        {latest === null ? labels.advice.wait('') : networkAdviceText(advice, latest)}
      </p>
      {latest !== null && (
        <ul class="checks plain" aria-label={labels.results}>
          {networkCheckRowsOf(latest).map((row, i) => (
            // Several devices may have the same name.
            <CheckRow key={i} {...row} />
          ))}
        </ul>
      )}
      <LocalNetworkNote hasFailed={isDirectFailing} />
      <div class="row">
        <button type="button" disabled={advice === 'wait'} onClick={() => (attempt.value += 1)}>
          {labels.again}
        </button>
      </div>
    </main>
  );
}

/** Colours of the advice, by whether training will work. */
const MOOD_OF: Readonly<Record<string, string>> = { true: 'good', false: 'wrong', null: '' };

function CheckRow({ name, verdict, result, note }: NetworkCheckRow) {
  const { colon } = uiMessages.value.network;
  return (
    <li>
      <span class={`check-icon ${MOODS[verdict]}`} aria-hidden="true">
        {ICONS[verdict]}
      </span>
      <span>
        {name}
        {colon}
        <span class="number">{result}</span>
        {note !== '' && <small class="dim">{note}</small>}
      </span>
    </li>
  );
}
