//! Color schemes and screen widths.

use crate::page::{Dashboard, VIEWS};
use crate::scene::{RULES, traffic};
use hivemind_testkit::Server;

const GROUND: &str = "getComputedStyle(document.documentElement).backgroundColor";

// Seen failing on: colors without a dark counterpart; a choice that is not kept; a dot that moves although the
// system asks for reduced motion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn theme_follows_the_system_until_one_is_chosen() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    page.set_color_scheme("light").await;
    let light = page.value(GROUND).await;
    page.set_color_scheme("dark").await;
    let dark = page.value(GROUND).await;
    assert_ne!(light, dark);
    page.click("#theme", "Auto").await;
    assert_eq!(page.value(GROUND).await, light);
    page.value("window.isOld = true; location.reload()").await;
    page.until("!window.isOld && document.body?.dataset.link === 'live'").await;
    assert_eq!(page.value(GROUND).await, light);
    page.click("#theme", "Light").await;
    page.set_color_scheme("light").await;
    assert_eq!(page.value(GROUND).await, dark);
    // The button's accessible name begins with its visible text.
    assert_eq!(
        page.value("document.getElementById('theme').getAttribute('aria-label').split(/\\W/)[0]").await,
        "Dark"
    );
    let moving = "getComputedStyle(document.querySelector('.dot')).animationName";
    assert_eq!(page.value(moving).await, "breathe");
    page.set_media_feature("reduced-motion", "reduce").await;
    assert_eq!(page.value(moving).await, "none");
    page.assert_clean().await;
}

/// The height of a table's column headings; headings for screen readers only have none.
const HEADS: &str = ".tHead.getBoundingClientRect().height > 10";

/// Asserts that every number in every table has a visible name next to it or above it.
async fn assert_numbers_have_names(page: &mut Dashboard) {
    page.view("overview").await;
    page.value("document.querySelector('details').open = true").await;
    page.until("document.querySelector('.as-table td').textContent !== ''").await;
    assert_eq!(page.value(&format!("document.querySelector('.as-table table'){HEADS}")).await, true);
    // There a row is a card, and its cells are labeled.
    assert_eq!(page.value(&format!("document.querySelector('.table table'){HEADS}")).await, false);
    let named = "getComputedStyle(document.querySelector('.cards td'), '::before').content";
    assert_eq!(page.value(named).await, "\"Domain\"");
    page.view("what-if").await;
    page.click("button", "Start with the active rules").await;
    page.until("document.querySelector('textarea').value.includes('shop')").await;
    page.click("button", "Try it").await;
    page.until("document.querySelector('.comparison td')").await;
    assert_eq!(page.value(&format!("document.querySelector('.comparison'){HEADS}")).await, true);
    assert_eq!(page.value("document.documentElement.scrollWidth <= 360").await, true);
}

// Seen failing on: columns of 99 rem at least; a comparison and a chart's table without column headings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_view_is_wider_than_its_screen() {
    let server = Server::with_rules(RULES).await;
    let _requests = traffic(&server).await;
    let mut page = Dashboard::live(server.admin).await;
    page.wait_for("user=mallory").await;
    for (width, height) in [(360, 740), (768, 1024), (2560, 1440)] {
        page.set_size(width, height).await;
        for (view, _) in VIEWS {
            page.view(view).await;
            page.until("!document.querySelector('main').innerText.includes('Loading…')").await;
            let wide = page.value("document.documentElement.scrollWidth").await;
            assert!(
                wide.as_u64().unwrap() <= u64::from(width),
                "{view} is {wide} wide on a screen of {width}"
            );
        }
    }
    page.set_size(360, 740).await;
    // The node is visible on a phone as well.
    page.until("document.getElementById('node').checkVisibility() && document.getElementById('node').textContent.includes('memory')").await;
    assert_numbers_have_names(&mut page).await;
    // The view names do not fit: they are behind a button.
    assert_eq!(page.value("document.querySelector('nav').checkVisibility()").await, false);
    page.click("#menu", "Menu").await;
    page.until("document.querySelector('nav').checkVisibility()").await;
    page.click("nav a", "Rules").await;
    page.until("document.querySelector('h1').textContent === 'Rules' && !document.querySelector('nav').checkVisibility()").await;
    page.assert_clean().await;
}

// Guards against: five labels with dates of another day that overlap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chart_time_labels_never_overlap() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    for width in [360, 800, 1440] {
        page.set_size(width, 900).await;
        for (from, to) in [(90_000, 0), (400_000_000, 300_000_000)] {
            let gaps = page
                .value(&format!(
                    "import('/assets/chart.js').then(async ({{chart}}) => {{ \
                     const one = chart({{title: 'A chart', format: String, series: []}}); \
                     document.querySelector('main').replaceChildren(one.figure); \
                     one.draw([], Date.now() - {from}, Date.now() - {to}); \
                     const boxes = [...one.figure.querySelectorAll('text.tick')].slice(3).map(text => text.getBoundingClientRect()); \
                     return boxes.slice(1).map((box, index) => box.left - boxes[index].right); }})"
                ))
                .await;
            let gaps = gaps.as_array().unwrap();
            assert!(
                !gaps.is_empty() && gaps.iter().all(|gap| gap.as_f64() > Some(0.0)),
                "{width} {from}: {gaps:?}"
            );
        }
    }
}
