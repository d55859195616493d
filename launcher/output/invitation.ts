/** Tells the user of `serve` how people on other machines open the page. */
import { renderUnicodeCompact } from 'uqr';
import { isLoopback } from '../../signaling/index.ts';

/**
 * White ink on black paper, in the colours of the terminal's fixed palette. Without them, the code
 * would be inverted on terminals with dark text, and not all cameras read inverted codes.
 */
const COLOURS = '\u001b[38;5;231m\u001b[48;5;16m';
const RESET = '\u001b[0m';
/** Light modules around the code. Cameras need them. */
const BORDER = 2;

export interface Invitation {
  /** The links of the page, the best one for other machines first. */
  links: readonly string[];
  /** The addresses of this machine in its networks. */
  addresses: readonly string[];
  /** Whether the output is a terminal, which can show a QR code. */
  isTerminal: boolean;
}

/** Returns lines for the terminal. */
export function inviteOthers({ links, addresses, isTerminal }: Invitation): string[] {
  const link = links.find((one) => !isLoopback(hostOf(one)));
  if (link === undefined) return hintOf(links[0]!, addresses[0]);
  const code = isTerminal ? [`Other machines open ${link} or scan:`, ...qrCodeOf(link)] : [];
  return link.startsWith('https:') ? code : [...code, warningOf(link)];
}

function qrCodeOf(link: string): string[] {
  const rows = renderUnicodeCompact(link, { ecc: 'M', border: BORDER }).split('\n');
  return rows.map((row) => `${COLOURS}${row}${RESET}`);
}

function warningOf(link: string): string {
  return (
    `On other machines ${new URL(link).origin} is not a secure context, so their tabs find no GPU: browsers offer WebGPU over https only. ` +
    'Serve the page over https: npm start -- --https'
  );
}

/** @param address of this machine, if it is in a network. */
function hintOf(link: string, address: string | undefined): string[] {
  if (address === undefined) return [];
  const url = new URL(link);
  url.hostname = address;
  return [
    `Only this machine can open the page. At ${url.origin} other machines would find no secure context, and so no WebGPU. ` +
      'To invite them, serve the page over https: npm start -- --https',
  ];
}

/** An IPv6 address is in brackets in a URL. */
function hostOf(link: string): string {
  return new URL(link).hostname.replace(/^\[(.*)\]$/, '$1');
}
