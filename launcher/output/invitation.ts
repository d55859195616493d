/** Tells the user of `serve` how people on other machines open the page. */
import { renderUnicodeCompact } from 'uqr';
import { isLoopback } from '../../signaling/http/address.ts';

/**
 * Escape sequence for white on black, in fixed colours of the terminal. In a terminal's default
 * colours, the QR code would be inverted if the text is dark, and not all cameras read inverted
 * codes.
 */
const COLOURS = '\u001b[38;5;231m\u001b[48;5;16m';
const RESET = '\u001b[0m';
/** Width of the light border around the QR code, in modules. Cameras need this border. */
const BORDER = 2;

/**
 * Returns lines for the terminal; none if only this machine can open the page.
 *
 * @param links the links of the page.
 * @param isTerminal whether the output is a terminal, which can show a QR code.
 */
export function inviteOthers(links: readonly string[], isTerminal: boolean): string[] {
  const link = links.find((one) => !isLoopback(hostOf(one)));
  if (link === undefined) return [];
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
    'Serve the page with --https.'
  );
}

/** An IPv6 address is in brackets in a URL. */
function hostOf(link: string): string {
  return new URL(link).hostname.replace(/^\[(.*)\]$/, '$1');
}
