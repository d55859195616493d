/** The contents of the shadow tree of `<peergrad-room>`. */
const STYLE = `
:host { display: block; max-width: 40rem; }
:host([hidden]), [hidden], p:empty { display: none; }
section {
  display: flex;
  flex-wrap: wrap;
  align-items: baseline;
  gap: 4px 16px;
  padding: 12px 16px;
  border: 1px solid color-mix(in srgb, currentcolor 30%, transparent);
  border-radius: 8px;
}
p { margin: 0; }
.error { flex-basis: 100%; padding-inline-start: 8px; border-inline-start: 4px solid #d5402b; overflow-wrap: anywhere; }
details[open] { flex-basis: 100%; }
summary { width: fit-content; cursor: pointer; font: 600 1em ui-monospace, monospace; letter-spacing: 0.06em; }
[open] > summary { font-size: 2em; }
.ways { display: flex; flex-wrap: wrap; align-items: start; justify-content: space-between; gap: 16px 32px; padding-top: 8px; }
.words { display: flex; flex: 1 1 14rem; flex-direction: column; align-items: start; gap: 8px; min-width: 0; }
a { color: inherit; overflow-wrap: anywhere; }
button { padding: 8px 12px; border: 1px solid; border-radius: 4px; background: none; color: inherit; font: inherit; cursor: pointer; }
.note { font-size: 0.85em; }
svg { flex: none; width: 160px; padding: 12px; border-radius: 4px; background: #fff; fill: #000; }
:focus-visible { outline: 2px solid; outline-offset: 2px; }
`;

let sheet: CSSStyleSheet | null = null;

/**
 * Returns the style sheet. It is created by script, because some Content-Security-Policies forbid
 * `<style>` elements.
 */
function styleSheet(): CSSStyleSheet {
  if (sheet === null) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
  }
  return sheet;
}

export type RoomElementParts = ReturnType<typeof createRoomElementParts>;

/** Adds the parts to a shadow tree. */
export function createRoomElementParts(root: ShadowRoot) {
  const status = withPart(document.createElement('p'), 'status');
  status.role = 'status';
  const progress = withPart(document.createElement('p'), 'progress');
  const alert = withPart(document.createElement('p'), 'error');
  alert.role = 'alert';
  const code = withPart(document.createElement('summary'), 'code');
  const address = withPart(document.createElement('a'), 'link');
  const copied = document.createElement('span');
  copied.ariaLive = 'polite';
  const copy = withPart(document.createElement('button'), 'copy');
  copy.type = 'button';
  copy.append(copied);
  const note = withPart(document.createElement('p'), 'note');
  const words = withClass('words', address, copy, note);
  const qr = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  qr.part.add('qr');
  qr.role = 'img';
  qr.setAttribute('shape-rendering', 'crispEdges');
  const ink = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  qr.append(ink);
  const invitation = document.createElement('details');
  invitation.open = true;
  invitation.append(code, withClass('ways', words, qr));
  const region = document.createElement('section');
  region.append(status, progress, alert, invitation);
  root.adoptedStyleSheets = [styleSheet()];
  root.append(region);
  return { region, status, progress, alert, invitation, code, address, copy, copied, note, qr, ink };
}

/**
 * Gives an element a name, so that the page's styles can select it by `::part`, and {@link STYLE}
 * by its class.
 */
function withPart<T extends HTMLElement>(element: T, name: string): T {
  element.part.add(name);
  element.className = name;
  return element;
}

function withClass(className: string, ...children: Element[]): HTMLElement {
  const element = document.createElement('div');
  element.className = className;
  element.append(...children);
  return element;
}
