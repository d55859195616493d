/** Writes the results of a network check in the language of the page. */
import type {
  NetworkAdvice,
  NetworkCheckResult,
  LinkSpeed,
  NetworkCheckEvent,
  NetworkReport,
  NetworkCheckPairReport,
} from '../../protocol/networkCheck.ts';
import { slowestServerLinkRate } from './advice.ts';
import { formatBytes, formatMs } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';

export type NetworkCheckRow = NetworkCheckEvent['rows'][number];

export function networkCheckRowsOf({ page, socket, addresses, stun, turn, pairs }: NetworkReport): NetworkCheckRow[] {
  const labels = uiMessages.value.network;
  const { names } = labels;
  const none = { verdict: 'not-tried', result: labels.verdicts['not-tried'], note: labels.noOtherTab } as const;
  return [
    rowOf(names.page, page, labels.page),
    rowOf(names.socket, socket, labels.socket),
    rowOf(names.addresses, addresses, labels.addresses),
    rowOf(names.stun, stun, labels.ice),
    rowOf(names.turn, turn, labels.ice),
    ...pairs.flatMap((pair) => [
      rowOf(names.direct(nameOf(pair)), pair.direct, labels.direct),
      rowOf(names.server(nameOf(pair)), pair.server, labels.server),
    ]),
    ...(pairs.length === 0
      ? [
          { name: names.direct(labels.otherTab), ...none },
          { name: names.server(labels.otherTab), ...none },
        ]
      : []),
  ];
}

function nameOf({ name, isSameBrowser }: NetworkCheckPairReport): string {
  return isSameBrowser ? uiMessages.value.network.thisBrowser(name) : name;
}

function rowOf<About extends string>(
  name: string,
  check: NetworkCheckResult<About, About, About>,
  notes: Readonly<Record<About, string>>,
): NetworkCheckRow {
  const labels = uiMessages.value.network;
  const { verdict } = check;
  const result = labels.verdicts[verdict];
  if (check.verdict === 'running') return { name, verdict, result, note: '' };
  const message = 'message' in check && check.message !== undefined ? ` (${check.message})` : '';
  const speed = check.verdict === 'works' ? speedOf(check) : [];
  return { name, verdict, result: [result, ...speed].join(labels.comma), note: `${notes[check.about]}${message}` };
}

function speedOf({ roundTripMs, bytesPerSecond }: Partial<LinkSpeed>): string[] {
  if (roundTripMs === undefined) return [];
  const rate = bytesPerSecond === undefined ? null : `${formatBytes(bytesPerSecond)}/s`;
  return [uiMessages.value.network.speed(rate, formatMs(roundTripMs))];
}

export function networkAdviceText(advice: NetworkAdvice, report: NetworkReport): string {
  const rate = slowestServerLinkRate(report);
  return uiMessages.value.network.advice[advice](rate === null ? '–' : `${formatBytes(rate)}/s`);
}
